# BLAKE2b with a digest of 8 bytes and no key (RFC 7693), of a text that comes in pieces.

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    typedef struct { uint64_t h[8], t; uint8_t b[128]; size_t n; } lb_blake2;
    static const uint64_t lb_iv[8] = {
        0x6A09E667F3BCC908ULL, 0xBB67AE8584CAA73BULL, 0x3C6EF372FE94F82BULL, 0xA54FF53A5F1D36F1ULL,
        0x510E527FADE682D1ULL, 0x9B05688C2B3E6C1FULL, 0x1F83D9ABFB41BD6BULL, 0x5BE0CD19137E2179ULL};
    static const uint8_t lb_sigma[12][16] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
        {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
        {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
        {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
        {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3}};
    #define LB_ROR(x, n) ((x) >> (n) | (x) << (64 - (n)))
    #define LB_MIX(a, b, c, d, x, y) \\
        a += b + x; d = LB_ROR(d ^ a, 32); c += d; b = LB_ROR(b ^ c, 24); \\
        a += b + y; d = LB_ROR(d ^ a, 16); c += d; b = LB_ROR(b ^ c, 63);
    static uint64_t lb_word(const uint8_t *r) {
        uint64_t w = 0; int i; for (i = 7; i >= 0; i--) w = w << 8 | r[i]; return w;
    }
    static void lb_block(lb_blake2 *s, const uint8_t *r, uint64_t last) {
        uint64_t v[16], m[16]; int i;
        for (i = 0; i < 16; i++) m[i] = lb_word(r + 8 * i);
        for (i = 0; i < 8; i++) { v[i] = s->h[i]; v[i + 8] = lb_iv[i]; }
        v[12] ^= s->t; v[14] ^= last;
        for (i = 0; i < 12; i++) {
            const uint8_t *g = lb_sigma[i];
            LB_MIX(v[0], v[4], v[8], v[12], m[g[0]], m[g[1]]) LB_MIX(v[1], v[5], v[9], v[13], m[g[2]], m[g[3]])
            LB_MIX(v[2], v[6], v[10], v[14], m[g[4]], m[g[5]]) LB_MIX(v[3], v[7], v[11], v[15], m[g[6]], m[g[7]])
            LB_MIX(v[0], v[5], v[10], v[15], m[g[8]], m[g[9]]) LB_MIX(v[1], v[6], v[11], v[12], m[g[10]], m[g[11]])
            LB_MIX(v[2], v[7], v[8], v[13], m[g[12]], m[g[13]]) LB_MIX(v[3], v[4], v[9], v[14], m[g[14]], m[g[15]])
        }
        for (i = 0; i < 8; i++) s->h[i] ^= v[i] ^ v[i + 8];
    }
    static void lb_begin(lb_blake2 *s) {
        memcpy(s->h, lb_iv, sizeof lb_iv); s->h[0] ^= 0x01010008; s->t = 0; s->n = 0;
    }
    static void lb_more(lb_blake2 *s, const void *data, size_t size) {
        const uint8_t *r = (const uint8_t *) data;
        while (size) {
            size_t part = 128 - s->n;
            /* A full block is the last one only if nothing follows. */
            if (!part) { s->t += 128; lb_block(s, s->b, 0); s->n = 0; continue; }
            if (!s->n && size > 128) { s->t += 128; lb_block(s, r, 0); r += 128; size -= 128; continue; }
            if (part > size) part = size;
            memcpy(s->b + s->n, r, part); s->n += part; r += part; size -= part;
        }
    }
    static uint64_t lb_end(lb_blake2 *s) {
        s->t += s->n; memset(s->b + s->n, 0, 128 - s->n); lb_block(s, s->b, ~(uint64_t) 0);
        /* The first eight bytes of the digest, as a big-endian number. */
        { uint64_t w = s->h[0], out = 0; int i; for (i = 0; i < 8; i++) { out = out << 8 | (w & 255); w >>= 8; } return out; }
    }
    """
    ctypedef struct Blake2 "lb_blake2":
        pass
    void blake2_begin "lb_begin"(Blake2 *state) noexcept nogil
    void blake2_more "lb_more"(Blake2 *state, const void *data, size_t size) noexcept nogil
    uint64_t blake2_end "lb_end"(Blake2 *state) noexcept nogil


cdef inline uint64_t mixed(uint64_t x) noexcept nogil:
    # `digest.bucket`.
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL
    x = (x ^ x >> 27) * 0x94D049BB133111EBULL
    return (x ^ x >> 31) >> 40
