/* treap.h - an intrusive balanced tree of blocks by base address.
 *
 * Threads: the caller serialises. Locks: none. Owns: nothing; nodes belong to blocks.c.
 * Invariant: in-order is ascending base, and no child has a larger prio than its parent, so the expected
 *          depth is logarithmic when prio is random.
 */
#ifndef ACLSIM_TREAP_H
#define ACLSIM_TREAP_H

#include "sim/blocks.h"

static inline void sim_treap_insert(struct sim_block **root, struct sim_block *node)
{
    struct sim_block **at = root, *rest, **low = &node->left, **high = &node->right;

    while (*at != NULL && (*at)->prio >= node->prio)
        at = node->base < (*at)->base ? &(*at)->left : &(*at)->right;
    rest = *at;
    *at = node;
    while (rest != NULL) { /* splits what was there around the node */
        if (rest->base < node->base) {
            *low = rest;
            low = &rest->right;
            rest = rest->right;
        } else {
            *high = rest;
            high = &rest->left;
            rest = rest->left;
        }
    }
    *low = *high = NULL;
}

static inline void sim_treap_remove(struct sim_block **root, struct sim_block *node)
{
    struct sim_block **at = root, *low = node->left, *high = node->right;

    while (*at != node)
        at = node->base < (*at)->base ? &(*at)->left : &(*at)->right;
    while (low != NULL && high != NULL) {
        if (low->prio >= high->prio) {
            *at = low;
            at = &low->right;
            low = low->right;
        } else {
            *at = high;
            at = &high->left;
            high = high->left;
        }
    }
    *at = low != NULL ? low : high;
}

/* The node with the largest base that is not above addr, or NULL. */
static inline struct sim_block *sim_treap_floor(struct sim_block *root, uintptr_t addr)
{
    struct sim_block *best = NULL;

    while (root != NULL) {
        if (root->base <= addr) {
            best = root;
            root = root->right;
        } else {
            root = root->left;
        }
    }
    return best;
}

#endif
