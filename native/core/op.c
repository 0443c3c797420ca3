#include "core/op.h"

#include <stdlib.h>
#include <string.h>

#include "core/after.h"

struct npux_request *npux_request_new(struct npux_port *port, uint32_t n_ops)
{
    struct npux_request *request = calloc(1, sizeof(*request) + n_ops * sizeof(struct npux_op));

    if (request == NULL)
        return NULL;
    npux_port_ref(port);
    request->port = port;
    request->n_ops = n_ops;
    request->priority = NPUX_NORMAL;
    atomic_init(&request->n_ops_left, n_ops);
    atomic_init(&request->n_uncaptured, n_ops + 1);
    request->captured_note.request = request;
    request->captured_note.what = NPUX_CAPTURED;
    request->done_note.request = request;
    request->done_note.what = NPUX_DONE;
    for (uint32_t i = 0; i < n_ops; i++) {
        request->ops[i].request = request;
        request->ops[i].err_stream = -1;
        atomic_init(&request->ops[i].n_chunks_left, 1);
    }
    return request;
}

void npux_request_free(struct npux_request *request)
{
    for (uint32_t i = 0; i < request->n_ops; i++) {
        struct npux_op *op = &request->ops[i];
        if (op->device != NULL)
            npux_block_unref(op->device);
        if (op->pinned != NULL)
            npux_block_unref(op->pinned);
        npux_host_clear(&op->host);
        free(op->err);
    }
    if (request->after != NULL)
        npux_after_unref(request->after);
    npux_port_unref(request->port);
    free(request);
}

struct npux_chunk *npux_chunk_new(struct npux_op *op, size_t offset, size_t nbytes)
{
    bool heap = offset != 0 || nbytes != op->host.nbytes;
    struct npux_chunk *chunk = heap ? malloc(sizeof(*chunk)) : &op->chunk0;

    if (chunk == NULL)
        return NULL;
    memset(chunk, 0, sizeof(*chunk));
    chunk->heap = heap;
    chunk->op = op;
    chunk->offset = offset;
    chunk->nbytes = nbytes;
    chunk->copy_nbytes = nbytes;
    return chunk;
}
