# CRC-32 as zlib has it, of events that are mostly short: a call of Python's for each would cost more than the sum.
#
# A polynomial over GF(2), reflected. On x86 sixty-four bytes are folded at once by carry-less multiplication: a block of
# 128 bits that stands n bits before another one adds to it as its halves times x^(n+64) and x^n modulo the polynomial.
# What is left, at most 31 bytes, and all on other processors, goes through tables, eight bytes a step.

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    static uint32_t lb_crc_tables[8][256];

    static void lb_crc_begin(void) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++) c = c >> 1 ^ (c & 1 ? 0xEDB88320u : 0);
            lb_crc_tables[0][i] = c;
        }
        for (int t = 1; t < 8; t++)
            for (int i = 0; i < 256; i++) {
                uint32_t before = lb_crc_tables[t - 1][i];
                lb_crc_tables[t][i] = before >> 8 ^ lb_crc_tables[0][before & 0xFF];
            }
    }

    static inline uint32_t lb_le32(const uint8_t *p) {
        return p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 24;
    }

    static uint32_t lb_crc_steps(uint32_t c, const uint8_t *p, size_t n) {
        uint32_t (*t)[256] = lb_crc_tables;
        for (; n >= 8; n -= 8, p += 8) {
            uint32_t a = c ^ lb_le32(p), b = lb_le32(p + 4);
            c = t[7][a & 255] ^ t[6][a >> 8 & 255] ^ t[5][a >> 16 & 255] ^ t[4][a >> 24]
                ^ t[3][b & 255] ^ t[2][b >> 8 & 255] ^ t[1][b >> 16 & 255] ^ t[0][b >> 24];
        }
        while (n--) c = c >> 8 ^ t[0][(c ^ *p++) & 255];
        return c;
    }

    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    #include <immintrin.h>
    #define LB_FOLD __attribute__((target("pclmul,sse4.1")))

    LB_FOLD static inline __m128i lb_fold(__m128i block, __m128i by, __m128i next) {
        __m128i low = _mm_clmulepi64_si128(block, by, 0x00), high = _mm_clmulepi64_si128(block, by, 0x11);
        return _mm_xor_si128(_mm_xor_si128(low, high), next);
    }

    /* At least 64 bytes, whole blocks of 16. */
    LB_FOLD static uint32_t lb_crc_blocks(uint32_t c, const uint8_t *p, size_t n) {
        /* x^(512+32), x^(512-32); x^(128+32), x^(128-32): reflected, modulo the polynomial. */
        const __m128i far = _mm_set_epi64x(0x1C6E41596, 0x154442BD4), near = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0);
        const __m128i *at = (const __m128i *) p;
        __m128i a = _mm_xor_si128(_mm_loadu_si128(at), _mm_cvtsi32_si128((int) c));
        __m128i b = _mm_loadu_si128(at + 1), d = _mm_loadu_si128(at + 2), e = _mm_loadu_si128(at + 3);
        uint8_t left[16];
        for (at += 4, n -= 64; n >= 64; at += 4, n -= 64) {
            a = lb_fold(a, far, _mm_loadu_si128(at));
            b = lb_fold(b, far, _mm_loadu_si128(at + 1));
            d = lb_fold(d, far, _mm_loadu_si128(at + 2));
            e = lb_fold(e, far, _mm_loadu_si128(at + 3));
        }
        a = lb_fold(lb_fold(lb_fold(a, near, b), near, d), near, e);
        for (; n; at++, n -= 16) a = lb_fold(a, near, _mm_loadu_si128(at));
        _mm_storeu_si128((__m128i *) left, a);
        return lb_crc_steps(0, left, 16);
    }

    /* As lb_crc_blocks: four blocks of 128 bits in one register, on processors that multiply them all at once. */
    #if defined(__clang__) || __GNUC__ >= 9
    __attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.1")))
    static uint32_t lb_crc_wide(uint32_t c, const uint8_t *p, size_t n) {
        const __m128i near = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0);
        const __m512i far = _mm512_broadcast_i32x4(_mm_set_epi64x(0x1C6E41596, 0x154442BD4));
        __m512i all = _mm512_loadu_si512(p);
        __m128i a;
        uint8_t left[16];
        all = _mm512_xor_si512(all, _mm512_zextsi128_si512(_mm_cvtsi32_si128((int) c)));
        for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
            __m512i low = _mm512_clmulepi64_epi128(all, far, 0x00), high = _mm512_clmulepi64_epi128(all, far, 0x11);
            all = _mm512_ternarylogic_epi64(low, high, _mm512_loadu_si512(p), 0x96);
        }
        a = _mm512_extracti32x4_epi32(all, 0);
        a = lb_fold(a, near, _mm512_extracti32x4_epi32(all, 1));
        a = lb_fold(a, near, _mm512_extracti32x4_epi32(all, 2));
        a = lb_fold(a, near, _mm512_extracti32x4_epi32(all, 3));
        for (; n; p += 16, n -= 16) a = lb_fold(a, near, _mm_loadu_si128((const __m128i *) p));
        _mm_storeu_si128((__m128i *) left, a);
        return lb_crc_steps(0, left, 16);
    }
    #define LB_WIDE (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") \
                     && __builtin_cpu_supports("vpclmulqdq"))
    #else
    #define lb_crc_wide lb_crc_blocks
    #define LB_WIDE 0
    #endif

    /* 0: by tables alone; 1: in blocks; 2: four blocks at once. */
    static int lb_crc_ways(void) {
        __builtin_cpu_init();
        return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1") ? LB_WIDE ? 2 : 1 : 0;
    }
    #else
    static uint32_t lb_crc_blocks(uint32_t c, const uint8_t *p, size_t n) { return lb_crc_steps(c, p, n); }
    #define lb_crc_wide lb_crc_blocks
    static int lb_crc_ways(void) { return 0; }
    #endif
    """
    void lb_crc_begin() noexcept nogil
    uint32_t lb_crc_steps(uint32_t c, const uint8_t *p, size_t n) noexcept nogil
    uint32_t lb_crc_blocks(uint32_t c, const uint8_t *p, size_t n) noexcept nogil
    uint32_t lb_crc_wide(uint32_t c, const uint8_t *p, size_t n) noexcept nogil
    int lb_crc_ways() noexcept nogil

lb_crc_begin()
cdef int _ways = lb_crc_ways()


cdef inline uint32_t crc_of(In p, size_t n, int ways) noexcept nogil:
    cdef uint32_t c = 0xFFFFFFFFU
    cdef size_t blocks = n & ~<size_t> 15
    if ways and n >= 64:
        # Of short ones the wide registers cost more than they spare.
        c = lb_crc_wide(c, p, blocks) if ways == 2 and n >= 1024 else lb_crc_blocks(c, p, blocks)
        p += blocks
        n -= blocks
    return ~lb_crc_steps(c, p, n)


def crc32(data, int ways=2):
    """The checksum, in at most so many `ways` as there are here: 2, 1, or by tables alone."""
    cdef const uint8_t[::1] view = data
    cdef size_t n = view.shape[0]
    return crc_of(&view[0] if n else NULL, n, ways if ways < _ways else _ways)
