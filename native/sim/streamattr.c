/* streamattr.c - what a stream can be asked and told about itself.
 *
 * Threads: any. Locks: sim.mu for what may change.
 * Owns:    nothing. Invariant: an attribute without effect on copies is kept as it was set.
 */
#include "sim/sim.h"

enum { LEAST = 7 }; /* of the priorities; 0 is the greatest */

aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority)
{
    SIM_CALL(aclrtStreamGetPriority);
    struct sim_stream *s = stream;
    struct sim_context *ctx;
    aclError code;

    if (priority == NULL)
        return sim_fail_null("priority");
    code = sim_stream_resolve(self, &s, &ctx);
    if (code != 0)
        return code;
    pthread_mutex_lock(&sim.mu);
    *priority = s->priority;
    pthread_mutex_unlock(&sim.mu);
    return ACL_SUCCESS;
}

aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags)
{
    SIM_CALL(aclrtStreamGetFlags);
    struct sim_stream *s = stream;
    struct sim_context *ctx;
    aclError code;

    if (flags == NULL)
        return sim_fail_null("flags");
    code = sim_stream_resolve(self, &s, &ctx);
    if (code == 0)
        *flags = s->flags;
    return code;
}

aclError aclrtGetStreamAvailableNum(uint32_t *count)
{
    SIM_CALL(aclrtGetStreamAvailableNum);
    struct sim_context *ctx;

    if (count == NULL)
        return sim_fail_null("count");
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    pthread_mutex_lock(&sim.mu);
    *count = sim_streams_left(ctx->dev);
    pthread_mutex_unlock(&sim.mu);
    return ACL_SUCCESS;
}

/* --- attributes --- */

static aclError unknown_attribute(aclrtStreamAttr attr)
{
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "attribute %d, expected value: [1, 5]", (int)attr);
}

static aclError switch_range(uint32_t value)
{
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "switch %u, expected value: 0 or 1", value);
}

/* The two attributes about overflow belong to a stream of the current context. */
static aclError set_kept(const struct sim_context *ctx, struct sim_stream *s, aclrtStreamAttr attr,
                         uint32_t value)
{
    aclError code = attr != ACL_STREAM_ATTR_CACHE_OP_INFO ? sim_stream_own(s, ctx) : ACL_SUCCESS;

    if (code != 0)
        return code;
    pthread_mutex_lock(&sim.mu);
    s->attr[attr - ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK] = value;
    pthread_mutex_unlock(&sim.mu);
    return ACL_SUCCESS;
}

static aclError set_priority(struct sim_stream *s, uint32_t value)
{
    if ((s->flags & ACL_STREAM_CPU_SCHEDULE) != 0)
        return sim_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EE1006", "stream %d has no priority", s->id);
    pthread_mutex_lock(&sim.mu);
    /* Read as signed by the runtime: a huge number is a negative one, and raised to the greatest. */
    s->priority = (int32_t)value < 0 ? 0 : value > LEAST ? LEAST : value;
    pthread_mutex_unlock(&sim.mu);
    return ACL_SUCCESS;
}

/* The overflow attributes are accepted without effect by chips that lack them. Only a priority needs a
 * handle: the default stream is refused there (observed on the open runtime). */
aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr attr, aclrtStreamAttrValue *value)
{
    SIM_CALL(aclrtSetStreamAttribute);
    struct sim_stream *s = stream;
    struct sim_context *ctx;
    aclError code;

    if (value == NULL)
        return sim_fail_null("value");
    if (attr == ACL_STREAM_ATTR_FAILURE_MODE)
        return sim_failure_mode(self, stream, value->failureMode);
    if (attr == ACL_STREAM_ATTR_PRIORITY && stream == NULL)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1004", "stream is null");
    code = sim_stream_resolve(self, &s, &ctx);
    if (code != 0)
        return code;
    switch (attr) {
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
        if (!sim_profile.has_compute_attr)
            return ACL_SUCCESS;
        if (value->overflowSwitch > 1)
            return switch_range(value->overflowSwitch);
        return set_kept(ctx, s, attr, value->overflowSwitch);
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
        return sim_profile.has_compute_attr ? set_kept(ctx, s, attr, value->userCustomTag) : ACL_SUCCESS;
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
        if (value->cacheOpInfoSwitch > 1)
            return switch_range(value->cacheOpInfoSwitch);
        return set_kept(ctx, s, attr, value->cacheOpInfoSwitch);
    case ACL_STREAM_ATTR_PRIORITY:
        return set_priority(s, value->streamPriority);
    default:
        return unknown_attribute(attr);
    }
}

aclError aclrtGetStreamAttribute(aclrtStream stream, aclrtStreamAttr attr, aclrtStreamAttrValue *value)
{
    SIM_CALL(aclrtGetStreamAttribute);
    struct sim_stream *s = stream;
    struct sim_context *ctx;
    aclError code;

    if (value == NULL)
        return sim_fail_null("value");
    if (attr == ACL_STREAM_ATTR_PRIORITY && stream == NULL)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1004", "stream is null");
    code = sim_stream_resolve(self, &s, &ctx);
    if (code == 0 &&
        (attr == ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK || attr == ACL_STREAM_ATTR_USER_CUSTOM_TAG))
        code = sim_stream_own(s, ctx);
    if (code != 0)
        return code;
    if (attr == ACL_STREAM_ATTR_PRIORITY && (s->flags & ACL_STREAM_CPU_SCHEDULE) != 0)
        return sim_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EE1006", "stream %d has no priority", s->id);
    pthread_mutex_lock(&sim.mu);
    switch (attr) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
        value->failureMode = s->stops || s->ctx->stops ? ACL_STOP_ON_FAILURE : ACL_CONTINUE_ON_FAILURE;
        break;
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
        value->userCustomTag = s->attr[attr - ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK];
        break;
    case ACL_STREAM_ATTR_PRIORITY:
        value->streamPriority = s->priority;
        break;
    default:
        code = ACL_ERROR_RT_PARAM_INVALID;
    }
    pthread_mutex_unlock(&sim.mu);
    return code != 0 ? unknown_attribute(attr) : ACL_SUCCESS;
}
