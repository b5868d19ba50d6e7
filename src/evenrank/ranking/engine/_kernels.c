/* Counting kernels: score a block of queries against a block of candidates and count, in registers.

   Compiled once per instruction set (hatch_build.py), ISA naming the variant. The result does not
   depend on the variant: float32 scores only sort candidates into "certainly better", "certainly not"
   and "undecided" (the bounds are proved in bounds.py), and the undecided are settled by `exact_score`,
   float64 arithmetic in one fixed order, the same as NumPy's in numpy_kernels.py. Everything is compiled
   with -ffp-contract=off, so that no product is fused into a sum there; the tiles ask for fusion by
   name. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#define LANES 16
#define ROWS 12 /* 12 x 2 accumulators, of 32 registers */
#elif defined(__AVX2__)
#include <immintrin.h>
#define LANES 8
#define ROWS 6 /* 6 x 2 accumulators, of 16 registers */
#elif defined(__aarch64__)
#define LANES 4
#define ROWS 8 /* 8 x 2 accumulators, of 32 registers: enough for four units; 12 x 2 of L1 and L2 do not fit */
#else
#define LANES 4
#define ROWS 6
#endif
#define WIDTH (2 * LANES)  /* candidates side by side in a panel */
#define CHUNK 64           /* dimensions summed before the sum is set aside: CHUNK of bounds.py */
#define SPAN 12            /* panels scored before they are counted: their scores stay in the first-level cache */
#define CACHE (384 * 1024) /* bytes of packed candidates that stay in the second-level cache */

typedef enum { DOT, L1, L2, MODULUS } Form;
typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(x) JOIN(x, ISA)
#if defined(_WIN32) /* elsewhere every function is exported */
#define EXPORT __declspec(dllexport)
#else
#define EXPORT
#endif
#define INLINE static inline __attribute__((always_inline))

/* ---- the definition ---------------------------------------------------------------------------- */

/* The first of the sums by halves takes the terms as they are computed. */
#define TERMS(term)                                                                                  \
    for (int64_t i = 0; i < d - width; i++) x[i] = term(i) + term(width + i);                        \
    for (int64_t i = d - width; i < width; i++) x[i] = term(i);
#define PRODUCT(i) (q[i] * (double)e[i])
#define APART(i) (q[i] - (double)e[i])
#define SIZE(i) fabs(APART(i))
#define SQUARE(i) (APART(i) * APART(i))
#define LENGTH(i) sqrt(SQUARE(i) + SQUARE(d + (i)))
#define DEFINITION(name, number)                                                                     \
    static double name(Form form, int64_t d, const double *q, const number *e, double *x) {         \
        int64_t width = 1;                                                                           \
        while (2 * width < d) width *= 2;                                                            \
        if (d == 1) {                                                                                \
            x[0] = form == DOT ? PRODUCT(0) : form == L1 ? SIZE(0) : form == L2 ? SQUARE(0) : LENGTH(0); \
            return form == DOT ? x[0] : -x[0];                                                       \
        }                                                                                            \
        switch (form) {                                                                              \
        case DOT: TERMS(PRODUCT) break;                                                              \
        case L1: TERMS(SIZE) break;                                                                  \
        case L2: TERMS(SQUARE) break;                                                                \
        case MODULUS: TERMS(LENGTH) break;                                                           \
        }                                                                                            \
        for (width /= 2; width > 4; width /= 2)                                                      \
            for (int64_t i = 0; i < width; i++) x[i] += x[width + i];                                \
        if (width == 4)                                                                              \
            for (int i = 0; i < 4; i++) x[i] += x[4 + i];                                            \
        if (width >= 2)                                                                              \
            for (int i = 0; i < 2; i++) x[i] += x[2 + i];                                            \
        if (width >= 1) x[0] += x[1];                                                                \
        return form == DOT ? x[0] : -x[0];                                                           \
    }
DEFINITION(exact_narrow, float)
DEFINITION(exact_wide, double)

INLINE double exact_score(Form form, int64_t d, const double *q, const void *table, int wide,
                          int64_t row, double *x) {
    int64_t step = form == MODULUS ? 2 * d : d;
    return wide ? exact_wide(form, d, q, (const double *)table + row * step, x)
                : exact_narrow(form, d, q, (const float *)table + row * step, x);
}

/* Scores of single pairs, by definition. */
EXPORT int NAME(pairs)(int form, int64_t d, const double *q, const void *table, int wide, int64_t pairs,
                       const int64_t *query, const int64_t *row, double *out) {
    int64_t step = form == MODULUS ? 2 * d : d;
    double *x = malloc(sizeof(double) * (size_t)d);
    if (!x) return 2;
    for (int64_t i = 0; i < pairs; i++)
        out[i] = exact_score(form, d, q + query[i] * step, table, wide, row[i], x);
    free(x);
    return 0;
}

/* ---- tiles -------------------------------------------------------------------------------------- */

INLINE lanes load(const float *x) { return *(const lanes *)x; }

#if defined(__AVX512F__)
INLINE lanes splat(float x) { return (lanes)_mm512_set1_ps(x); }
INLINE lanes fused(lanes a, lanes b, lanes c) { return (lanes)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
INLINE lanes absolute(lanes a) { return (lanes)_mm512_abs_ps((__m512)a); }
INLINE lanes root(lanes a) { return (lanes)_mm512_sqrt_ps((__m512)a); }
/* half the time of a root; off by less than 2^-14, which bounds.py allows for; 0 stays 0 */
INLINE lanes rough_root(lanes a) {
    return a * (lanes)_mm512_rsqrt14_ps(_mm512_max_ps((__m512)a, _mm512_set1_ps(0x1p-120f)));
}
INLINE uint32_t above(lanes a, lanes b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ); }
/* counters, and how many of the lanes of a and c are above those of b: bits of masks are counted faster than
   vectors are added, where comparisons make masks */
typedef uint32_t counts;
INLINE counts add_above(counts n, lanes a, lanes c, lanes b) {
    return n + (counts)__builtin_popcount(above(a, b) | above(c, b) << LANES);
}
INLINE counts add_below(counts n, lanes a, lanes c, lanes b) {
    return n + (counts)__builtin_popcount(above(b, a) | above(b, c) << LANES);
}
INLINE uint32_t total(counts n) { return n; }
#elif defined(__AVX2__)
INLINE lanes splat(float x) { return (lanes)_mm256_set1_ps(x); }
INLINE lanes fused(lanes a, lanes b, lanes c) { return (lanes)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
INLINE lanes absolute(lanes a) { return (lanes)_mm256_andnot_ps(_mm256_set1_ps(-0.0f), (__m256)a); }
INLINE lanes root(lanes a) { return (lanes)_mm256_sqrt_ps((__m256)a); }
#define rough_root root
INLINE uint32_t above(lanes a, lanes b) {
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GT_OQ));
}
#else
INLINE lanes splat(float x) { return (lanes){x, x, x, x}; }
#if defined(__aarch64__) /* one instruction instead of two; the rest compiles to NEON as it is */
#include <arm_neon.h>
INLINE lanes fused(lanes a, lanes b, lanes c) {
    return (lanes)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
#else
INLINE lanes fused(lanes a, lanes b, lanes c) { return a * b + c; }
#endif
INLINE lanes absolute(lanes a) { for (int i = 0; i < LANES; i++) a[i] = fabsf(a[i]); return a; }
INLINE lanes root(lanes a) { for (int i = 0; i < LANES; i++) a[i] = sqrtf(a[i]); return a; }
#define rough_root root
INLINE uint32_t above(lanes a, lanes b) {
    uint32_t bits = 0;
    for (int i = 0; i < LANES; i++) bits |= (uint32_t)(a[i] > b[i]) << i;
    return bits;
}
#endif
#if !defined(__AVX512F__)
typedef int32_t counts __attribute__((vector_size(4 * LANES)));
INLINE counts add_above(counts n, lanes a, lanes c, lanes b) { return n - (counts)(a > b) - (counts)(c > b); } /* true is -1 */
INLINE counts add_below(counts n, lanes a, lanes c, lanes b) { return n - (counts)(a < b) - (counts)(c < b); }
INLINE uint32_t total(counts n) {
    uint32_t sum = 0;
    for (int i = 0; i < LANES; i++) sum += (uint32_t)n[i];
    return sum;
}
#endif

/* ROWS queries against WIDTH candidates: q is [d][parts][ROWS], e is [d][parts][WIDTH] (a modulus has
   two parts, real and imaginary), s becomes [ROWS][WIDTH]. `rows` at a time keep to the registers. */
INLINE void tile(const Form form, const int rough, const int rows, int64_t d, const float *q, const float *e,
                 float *s) {
    const int parts = form == MODULUS ? 2 : 1;
    for (int first = 0; first < ROWS; first += rows) {
        float *out = s + first * WIDTH;
        memset(out, 0, sizeof(float) * (size_t)(rows * WIDTH));
        for (int64_t k = 0; k < d; k += CHUNK) {
            const float *qk = q + k * parts * ROWS + first, *ek = e + k * parts * WIDTH;
            int64_t n = d - k < CHUNK ? d - k : CHUNK;
            lanes sum[ROWS][2];
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = splat(0);
            for (int64_t j = 0; j < n; j++, qk += parts * ROWS, ek += parts * WIDTH) {
                lanes a = load(ek), b = load(ek + LANES);
                lanes c = form == MODULUS ? load(ek + WIDTH) : a, f = form == MODULUS ? load(ek + WIDTH + LANES) : b;
#pragma GCC unroll 16
                for (int i = 0; i < rows; i++) {
                    lanes x = splat(qk[i]);
                    if (form == DOT) {
                        sum[i][0] = fused(x, a, sum[i][0]);
                        sum[i][1] = fused(x, b, sum[i][1]);
                    } else if (form == L1) {
                        sum[i][0] -= absolute(x - a);
                        sum[i][1] -= absolute(x - b);
                    } else if (form == L2) {
                        lanes u = x - a, v = x - b;
                        sum[i][0] = fused(-u, u, sum[i][0]);
                        sum[i][1] = fused(-v, v, sum[i][1]);
                    } else {
                        lanes y = splat(qk[ROWS + i]);
                        lanes u = x - a, v = y - c, w = x - b, z = y - f;
                        lanes g = fused(u, u, v * v), h = fused(w, w, z * z);
                        sum[i][0] -= rough ? rough_root(g) : root(g);
                        sum[i][1] -= rough ? rough_root(h) : root(h);
                    }
                }
            }
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                *(lanes *)(out + i * WIDTH) += sum[i][0];
                *(lanes *)(out + i * WIDTH + LANES) += sum[i][1];
            }
        }
    }
}

static void score_tile(Form form, int rough, int64_t d, const float *q, const float *e, float *s) {
    switch (form) {
    case DOT: tile(DOT, 0, ROWS, d, q, e, s); break;
    case L1: tile(L1, 0, ROWS, d, q, e, s); break;
    case L2: tile(L2, 0, ROWS, d, q, e, s); break;
    case MODULUS:
        if (rough) tile(MODULUS, 1, ROWS / 2, d, q, e, s);
        else tile(MODULUS, 0, ROWS / 2, d, q, e, s);
        break;
    }
}

/* Size, in floats, of n rows once packed for `pack`: whole panels of `across`. */
INLINE int64_t room(int64_t n, int64_t across, int64_t length) { return (n + across - 1) / across * across * length; }
EXPORT int64_t NAME(room_for)(int queries, int64_t n, int64_t length) {
    return room(n, queries ? ROWS : WIDTH, length);
}

/* Rows of a table, turned into float32 panels [panel][dimension][part][across]; missing rows are 0. */
#define PACK(name, number)                                                                           \
    static void name(int64_t across, int parts, int64_t n, int64_t d, const number *rows, float *out) { \
        for (int64_t p = 0; p < n; p += across, out += across * d * parts)                           \
            for (int64_t i = 0; i < across; i++)                                                     \
                for (int part = 0; part < parts; part++) {                                           \
                    const number *row = rows + ((p + i) * parts + part) * d;                         \
                    float *to = out + part * across + i;                                             \
                    if (p + i < n)                                                                   \
                        for (int64_t k = 0; k < d; k++) to[k * parts * across] = (float)row[k];      \
                    else                                                                             \
                        for (int64_t k = 0; k < d; k++) to[k * parts * across] = 0;                  \
                }                                                                                    \
    }
PACK(pack_narrow, float)
PACK(pack_wide, double)

EXPORT void NAME(pack)(int queries, int form, int64_t n, int64_t d, const void *rows, int wide, float *out) {
    int64_t across = queries ? ROWS : WIDTH;
    int parts = form == MODULUS ? 2 : 1;
    if (wide) pack_wide(across, parts, n, d, rows, out);
    else pack_narrow(across, parts, n, d, rows, out);
}

/* A float at least (or at most) as large as the double: rounding never narrows what is undecided. */
INLINE float outward(double x, double sign) { return (float)(x + sign * (fabs(x) * 0x1p-22 + 0x1p-140)); }

typedef struct {
    Form form;
    int64_t d, length;   /* numbers in a part of a row, and in a row */
    const double *q;     /* query vectors */
    int64_t m;           /* candidates */
    const void *table;   /* their rows */
    int wide;            /* whether rows are float64 */
    const int64_t *first;
    const double *score, *low, *high, *slope, *weight;
    int64_t *better, *equal, *undecided, *bad;
    double *x;           /* room for the terms of a score */
} Job;

/* Count target t of query i against panel p, whose float32 scores are s; return 1 where a score is NaN. */
INLINE int count_panel(const Job *job, int64_t i, int64_t t, int64_t p, const float *s) {
    int64_t left = job->m - p * WIDTH;
    uint32_t there = left >= WIDTH ? (uint32_t)((UINT64_C(1) << WIDTH) - 1) : (UINT32_C(1) << left) - 1;
    lanes a = load(s), c = load(s + LANES);
    double more = job->slope[i] * job->weight[p];
    lanes high = splat(outward(job->high[t] + more, 1)), low = splat(outward(job->low[t] - more, -1));
    uint32_t over = above(a, high) | above(c, high) << LANES;
    uint32_t under = above(low, a) | above(low, c) << LANES;
    if (!(more < 0x1p100)) over = under = 0; /* float32 could overflow */
    job->better[t] += __builtin_popcount(over & there);
    for (uint32_t open = ~(over | under) & there; open; open &= open - 1) {
        int64_t j = p * WIDTH + __builtin_ctz(open);
        double exact = exact_score(job->form, job->d, job->q + i * job->length, job->table, job->wide, j, job->x);
        if (exact != exact) {
            job->bad[0] = i;
            job->bad[1] = j;
            return 1;
        }
        job->better[t] += exact > job->score[t];
        job->equal[t] += exact == job->score[t];
        ++*job->undecided;
    }
    return 0;
}

/* Count how many of the scores in some panels are above `high`, and how many below `low`: in one number,
   as either is at most SPAN * WIDTH. */
INLINE uint32_t count_span(const float *s, int64_t panels, float high, float low) {
    lanes most = splat(high), least = splat(low);
    counts over = {0}, under = {0}; /* braces: a vector, or one number */
    for (int64_t k = 0; k < panels; k++, s += ROWS * WIDTH) {
        lanes a = load(s), c = load(s + LANES);
        over = add_above(over, a, c, most);
        under = add_below(under, a, c, least);
    }
    return total(over + (under << 16));
}

/* Count the targets of query i against panels p .. end, whose scores are s: against all whole panels at
   once, with the widest of their bounds, and where that leaves a candidate undecided, one by one. Returns
   1 where a score is NaN. */
static int count_row(const Job *job, int64_t i, int64_t p, int64_t end, double most, const float *s) {
    int64_t whole = end * WIDTH <= job->m ? end - p : end - p - 1;
    double more = job->slope[i] * most;
    if (!(more < 0x1p100)) whole = 0; /* float32 could overflow */
    for (int64_t t = job->first[i]; t < job->first[i + 1]; t++) {
        float high = outward(job->high[t] + more, 1), low = outward(job->low[t] - more, -1);
        uint32_t sums = count_span(s, whole, high, low), over = sums & 0xffff, under = sums >> 16;
        int decided = over + under == whole * WIDTH;
        if (decided) job->better[t] += over;
        for (int64_t k = decided ? p + whole : p; k < end; k++)
            if (count_panel(job, i, t, k, s + (k - p) * ROWS * WIDTH)) return 1;
    }
    return 0;
}

/* Count, for the targets of n queries, which of m candidates are better and which are equal.

   q: float64 query vectors; qp: the same, packed; table: the candidates' rows; ep: the same, packed.
   Targets of query i are first[i] .. first[i + 1]; each has its exact score, and low and high, between
   which float32 cannot decide; high - low grows by 2 slope[i] weight[p] (dot: norms of query and
   candidate, the largest of panel p). Adds to better, equal and undecided. Returns 0; 1 where a score is
   NaN, with its query and candidate in `bad`; 2 out of memory.

   SPAN panels are scored before they are counted, so that thresholds are set once for all of them; only
   targets that leave something undecided are counted panel by panel. */
EXPORT int NAME(count)(int form, int64_t d, int64_t n, const double *q, const float *qp, int64_t m,
                       const void *table, int wide, const float *ep, const int64_t *first, const double *score,
                       const double *low, const double *high, const double *slope, const double *weight,
                       int64_t *better, int64_t *equal, int64_t *undecided, int64_t *bad) {
    int64_t length = d * (form == MODULUS ? 2 : 1), panels = (m + WIDTH - 1) / WIDTH;
    int64_t block = CACHE / (4 * WIDTH * length);
    if (block < 1) block = 1;
    double *x = malloc(sizeof(double) * (size_t)d);
    if (!x) return 2;
    Job job = {form, d, length, q, m, table, wide, first, score, low, high, slope, weight, better, equal, undecided, bad, x};
    float s[SPAN * ROWS * WIDTH] __attribute__((aligned(64)));
    for (int64_t b = 0; b < panels; b += block)
        for (int64_t g = 0; g < n; g += ROWS)
            for (int64_t p = b, end; p < panels && p < b + block; p = end) {
                double most = 0; /* a NaN stays */
                for (end = p; end < panels && end < b + block && end < p + SPAN; end++) {
                    score_tile(form, 1, d, qp + g * length, ep + end * WIDTH * length, s + (end - p) * ROWS * WIDTH);
                    if (!(weight[end] <= most)) most = weight[end];
                }
                for (int64_t i = g; i < n && i < g + ROWS; i++)
                    if (count_row(&job, i, p, end, most, s + (i - g) * WIDTH)) {
                        free(x);
                        return 1;
                    }
            }
    free(x);
    return 0;
}

/* Float32 scores, row-major, of n queries against m candidates, both packed. */
EXPORT void NAME(dense)(int form, int64_t d, int64_t n, const float *qp, int64_t m, const float *ep, float *out) {
    int64_t length = d * (form == MODULUS ? 2 : 1);
    float s[ROWS * WIDTH] __attribute__((aligned(64)));
    for (int64_t p = 0; p < m; p += WIDTH)
        for (int64_t g = 0; g < n; g += ROWS) {
            score_tile(form, 0, d, qp + g * length, ep + p * length, s);
            int64_t width = m - p < WIDTH ? m - p : WIDTH;
            for (int64_t i = g; i < n && i < g + ROWS; i++)
                memcpy(out + i * m + p, s + (i - g) * WIDTH, sizeof(float) * (size_t)width);
        }
}

/* ---- scores that are given ----------------------------------------------------------------------- */

/* Count in a row-major matrix of given scores; NaN compares with nothing and is found beforehand. */
#define COUNT_ROWS(name, number)                                                                     \
    EXPORT void NAME(name)(int64_t n, int64_t m, const number *scores, const int64_t *first,         \
                           const number *goal, int64_t *better, int64_t *equal) {                    \
        for (int64_t i = 0; i < n; i++, scores += m)                                                 \
            for (int64_t t = first[i]; t < first[i + 1]; t++)                                        \
                for (int64_t j = 0; j < m; j += 1 << 20) {                                           \
                    int64_t end = m - j < 1 << 20 ? m : j + (1 << 20);                               \
                    int32_t over = 0, same = 0; /* narrow counters: twice as many side by side */    \
                    for (int64_t k = j; k < end; k++) {                                              \
                        over += scores[k] > goal[t];                                                 \
                        same += scores[k] == goal[t];                                                \
                    }                                                                                \
                    better[t] += over;                                                               \
                    equal[t] += same;                                                                \
                }                                                                                    \
    }
COUNT_ROWS(count_rows_narrow, float)
COUNT_ROWS(count_rows_wide, double)

/* Count in lists of scores, one per query, start[i] .. start[i + 1]. */
EXPORT void NAME(count_lists)(int64_t n, const double *scores, const int64_t *start, const int64_t *first,
                              const double *goal, int64_t *better, int64_t *equal) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t t = first[i]; t < first[i + 1]; t++) {
            int64_t over = 0, same = 0;
            for (int64_t k = start[i]; k < start[i + 1]; k++) {
                over += scores[k] > goal[t];
                same += scores[k] == goal[t];
            }
            better[t] = over;
            equal[t] = same;
        }
}

/* ---- which variant ------------------------------------------------------------------------------- */

#if BASE && X86
/* Read the registers, as the compiler's own check is not in the libraries of every cross compiler. */
#include <cpuid.h>
#define ALL(bits, of) (((of) & (bits)) == (bits))
EXPORT int kernel_level(void) {
    const unsigned v3_1 = bit_FMA | bit_OSXSAVE | bit_AVX | bit_POPCNT, v3_7 = bit_AVX2 | bit_BMI | bit_BMI2;
    const unsigned v4_7 = bit_AVX512F | bit_AVX512DQ | bit_AVX512CD | bit_AVX512BW | bit_AVX512VL;
    unsigned a, b, c, d, low, high, extended;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !ALL(v3_1, c)) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if (!ALL(0x06u, low)) return 0; /* the system does not save the wide registers */
    if (!__get_cpuid(0x80000001, &a, &b, &extended, &d) || !ALL(bit_LZCNT, extended)) return 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !ALL(v3_7, b)) return 0;
#if !defined(__APPLE__) /* there, the widest are saved from their first use on, and not announced before */
    if (!ALL(0xe0u, low)) return 1;
#endif
    return ALL(v4_7, b) ? 2 : 1;
}
#elif BASE
EXPORT int kernel_level(void) { return 0; }
#endif
