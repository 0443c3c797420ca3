/* json.c - a recursive descent over one JSON text.
 *
 * Threads: none of its own. Locks: none. Owns: nothing after it returned.
 * Invariant: at <= end; nothing is read at end. Bytes above 0x7f pass through unchanged.
 */
#include "sim/json.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *start, *at, *end;
    int objects, arrays; /* open now */
    char *why;
    size_t n_why;
};

static bool wrong(struct reader *r, const char *what)
{
    if (r->why[0] == '\0')
        snprintf(r->why, r->n_why, "%s at byte %zu", what, (size_t)(r->at - r->start));
    return false;
}

static char peek(const struct reader *r) /* 0 at the end */
{
    return r->at < r->end ? *r->at : '\0';
}

static void skip_space(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r' || *r->at == '\n'))
        r->at++;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_unit(struct reader *r, uint32_t *unit)
{
    *unit = 0;
    if (r->end - r->at < 4)
        return wrong(r, "an escape ends too early");
    for (int i = 0; i < 4; i++) {
        int digit = hex(*r->at);

        if (digit < 0)
            return wrong(r, "not a hexadecimal digit");
        *unit = *unit * 16 + (uint32_t)digit;
        r->at++;
    }
    return true;
}

/* Behind \u; writes at most 4 bytes. */
static bool read_code_point(struct reader *r, char **out)
{
    uint32_t code, low;
    char *o = *out;

    if (!read_unit(r, &code))
        return false;
    if (code >= 0xd800 && code < 0xdc00) {
        if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
            return wrong(r, "half of a surrogate pair");
        r->at += 2;
        if (!read_unit(r, &low))
            return false;
        if (low < 0xdc00 || low > 0xdfff)
            return wrong(r, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if ((code >= 0xdc00 && code <= 0xdfff) || code == 0) {
        return wrong(r, "a code point that a text cannot hold");
    }
    if (code < 0x80) {
        *o++ = (char)code;
    } else {
        int more = code < 0x800 ? 1 : (code < 0x10000 ? 2 : 3);
        static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};

        *o++ = (char)(lead[more] | (code >> (6 * more)));
        while (more-- > 0)
            *o++ = (char)(0x80 | ((code >> (6 * more)) & 0x3f));
    }
    *out = o;
    return true;
}

static bool read_escape(struct reader *r, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *found;
    char c = peek(r);

    if (c == '\0')
        return wrong(r, "a string without end");
    r->at++;
    if (c == 'u')
        return read_code_point(r, out);
    found = strchr(from, c);
    if (found == NULL)
        return wrong(r, "an unknown escape");
    *(*out)++ = to[found - from];
    return true;
}

/* At the opening quote. NULL when it is wrong or memory ran out. */
static char *read_string(struct reader *r)
{
    const char *stop = r->at + 1;
    char *text, *out;

    while (stop < r->end && *stop != '"')
        stop += *stop == '\\' ? 2 : 1;
    /* Decoding never makes a string longer; stop may be one behind the end. */
    text = out = malloc((size_t)(stop - r->at) + 1);
    if (text == NULL) {
        wrong(r, "out of memory");
        return NULL;
    }
    r->at++;
    for (;;) {
        unsigned char c;

        if (r->at == r->end) {
            wrong(r, "a string without end");
            break;
        }
        c = (unsigned char)*r->at;
        if (c < 0x20) {
            wrong(r, "a control character in a string");
            break;
        }
        r->at++;
        if (c == '"') {
            *out = '\0';
            return text;
        }
        if (c != '\\')
            *out++ = (char)c;
        else if (!read_escape(r, &out))
            break;
    }
    free(text);
    return NULL;
}

static bool digits(struct reader *r)
{
    const char *first = r->at;

    while (peek(r) >= '0' && peek(r) <= '9')
        r->at++;
    return r->at > first || wrong(r, "a digit is missing");
}

static bool read_number(struct reader *r)
{
    if (peek(r) == '-')
        r->at++;
    if (peek(r) == '0')
        r->at++;
    else if (!digits(r))
        return false;
    if (peek(r) == '.') {
        r->at++;
        if (!digits(r))
            return false;
    }
    if (peek(r) == 'e' || peek(r) == 'E') {
        r->at++;
        if (peek(r) == '+' || peek(r) == '-')
            r->at++;
        return digits(r);
    }
    return true;
}

static bool read_word(struct reader *r, struct sim_json *value)
{
    static const char *const words[] = {"null", "true", "false"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t n = strlen(words[i]);

        if ((size_t)(r->end - r->at) >= n && memcmp(r->at, words[i], n) == 0) {
            r->at += n;
            value->kind = i == 0 ? SIM_JSON_NULL : SIM_JSON_BOOL;
            return true;
        }
    }
    return wrong(r, "a value is missing");
}

static struct sim_json *read_value(struct reader *r);

/* Behind the opening bracket of an array or object. */
static bool read_members(struct reader *r, struct sim_json *parent, char close)
{
    struct sim_json **tail = &parent->first;

    skip_space(r);
    if (peek(r) == close) {
        r->at++;
        return true;
    }
    for (;;) {
        char *key = NULL;

        skip_space(r);
        if (parent->kind == SIM_JSON_OBJECT) {
            if (peek(r) != '"')
                return wrong(r, "a name in quotes is missing");
            key = read_string(r);
            if (key == NULL)
                return false;
            skip_space(r);
            if (peek(r) != ':') {
                free(key);
                return wrong(r, "a colon is missing");
            }
            r->at++;
        }
        *tail = read_value(r);
        if (*tail == NULL) {
            free(key);
            return false;
        }
        (*tail)->key = key;
        tail = &(*tail)->next;
        skip_space(r);
        if (peek(r) == close) {
            r->at++;
            return true;
        }
        if (peek(r) != ',')
            return wrong(r, "a comma or a closing bracket is missing");
        r->at++;
    }
}

static bool read_nest(struct reader *r, struct sim_json *value)
{
    bool object = *r->at == '{', ok;
    int *depth = object ? &r->objects : &r->arrays;

    value->kind = object ? SIM_JSON_OBJECT : SIM_JSON_ARRAY;
    if (*depth == SIM_JSON_DEPTH)
        return wrong(r, "more than 10 levels of brackets");
    ++*depth;
    r->at++;
    ok = read_members(r, value, object ? '}' : ']');
    --*depth;
    return ok;
}

static bool fill(struct reader *r, struct sim_json *value)
{
    const char *first = r->at;
    char c = peek(r);
    bool ok;

    if (c == '{' || c == '[')
        return read_nest(r, value);
    if (c == '"') {
        value->kind = SIM_JSON_STRING;
        value->text = read_string(r);
        return value->text != NULL;
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
        value->kind = SIM_JSON_NUMBER;
        ok = read_number(r);
    } else {
        ok = read_word(r, value);
    }
    if (!ok)
        return false;
    value->text = strndup(first, (size_t)(r->at - first));
    return value->text != NULL || wrong(r, "out of memory");
}

static struct sim_json *read_value(struct reader *r)
{
    struct sim_json *value = calloc(1, sizeof(*value));

    skip_space(r);
    if (value == NULL) {
        wrong(r, "out of memory");
        return NULL;
    }
    if (fill(r, value))
        return value;
    sim_json_free(value);
    return NULL;
}

struct sim_json *sim_json_parse(const char *text, size_t nbytes, char *why, size_t n_why)
{
    struct reader r = {.start = text, .at = text, .end = text + nbytes, .why = why, .n_why = n_why};
    struct sim_json *tree;

    why[0] = '\0';
    tree = read_value(&r);
    skip_space(&r);
    if (tree != NULL && r.at != r.end) {
        wrong(&r, "something follows the value");
        sim_json_free(tree);
        return NULL;
    }
    return tree;
}

void sim_json_free(struct sim_json *tree)
{
    while (tree != NULL) {
        struct sim_json *next = tree->next;

        sim_json_free(tree->first);
        free(tree->key);
        free(tree->text);
        free(tree);
        tree = next;
    }
}

const struct sim_json *sim_json_get(const struct sim_json *object, const char *key)
{
    const struct sim_json *found = NULL;

    if (object == NULL || object->kind != SIM_JSON_OBJECT)
        return NULL;
    for (const struct sim_json *m = object->first; m != NULL; m = m->next)
        if (strcmp(m->key, key) == 0)
            found = m;
    return found;
}
