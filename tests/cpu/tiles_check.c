// Multiplies bfloat16 by emulated tiles (cpu/native/tiles.c), for sizes near those of tiles and in every
// layout, and compares with plain sums. Exits with 1 if an element is wrong.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float sums[4][16][16];
static uint16_t factors[8][16][32];

static float widen(uint16_t bfloat)
{
    const uint32_t bits = (uint32_t)bfloat << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

static void add_products(int c, int a, int b)
{
    for (int x = 0; x < 16 * 16 * 32; ++x) {
        const int i = x / 512, j = x / 32 % 16, l = x % 32;
        sums[c][i][j] += widen(factors[a][i][l]) * widen(factors[b][l / 2][2 * j + l % 2]);
    }
}

#define FOR_TILES
#define BEGIN_TILES()
#define END_TILES()
#define CLEAR(c) memset(sums[c], 0, sizeof sums[c])
#define LOAD(tile, source) memcpy(factors[tile], source, sizeof factors[tile])
#define ADD_PRODUCTS(c, a, b) add_products(c, a, b)
#define STORE(c, target) \
    for (int i = 0; i < SIDE; ++i) memcpy((target) + i * PAIR, sums[c][i], LINE_BYTES)
#include "../../cpu/native/tiles.c"

enum { MOST = 100 };

static float total[MOST * MOST], memory[2 * TEMPORARY_ELEMENTS];
static uint16_t left[MOST * MOST], right[MOST * MOST];

static Source lay_out(const uint16_t* elements, int64_t rows, int64_t columns, int by_rows)
{
    const int64_t item = sizeof *elements;
    return by_rows ? (Source){(const char*)elements, (columns + 1) * item, item}
                   : (Source){(const char*)elements, item, (rows + 1) * item};
}

static float at(Source source, int64_t i, int64_t j)
{
    return widen(read_bfloat(source.data + i * source.row + j * source.column));
}

static int check(int64_t m, int64_t n, int64_t k, int way)
{
    const Source a = lay_out(left, m, k, way & 1), b = lay_out(right, k, n, way & 2);
    const int begins = !(way & 4);
    for (int i = 0; i < MOST * MOST; ++i) total[i] = begins ? NAN : 7;
    if (!multiply_by_tiles(a, b, m, n, k, total, begins, memory)) return 1;
    for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
            double sum = begins ? 0 : 7;
            for (int64_t l = 0; l < k; ++l) sum += (double)at(a, i, l) * at(b, l, j);
            if (!(fabs(total[i * n + j] - sum) <= 1e-5 * k)) {
                fprintf(stderr, "tiles_check: %ldx%ldx%ld, way %d: C[%ld, %ld] is %g, not %g\n", (long)m, (long)n,
                        (long)k, way, (long)i, (long)j, total[i * n + j], sum);
                return 1;
            }
        }
    }
    for (int64_t i = m * n; i < MOST * MOST; ++i) {
        if (begins ? !isnan(total[i]) : total[i] != 7) return 1;  // nothing else is written
    }
    return 0;
}

static int refuses(uint16_t one, uint16_t other)
{
    const Source a = lay_out(left, 20, 20, 1), b = lay_out(right, 20, 20, 1);
    const uint16_t before = left[0], after = right[0];
    left[0] = one;
    right[0] = other;
    const int taken = multiply_by_tiles(a, b, 20, 20, 20, total, 1, memory);
    left[0] = before;
    right[0] = after;
    return !taken;
}

int main(void)
{
    int wrong = 0;
    for (int i = 0; i < MOST * MOST; ++i) {
        left[i] = (uint16_t)(0x3f00 + rand() % 128 + (rand() % 2 << 15));  // 0.5 to 1, of either sign
        right[i] = rand() % 9 ? (uint16_t)(0x3f00 + rand() % 128 + (rand() % 2 << 15)) : 0;
    }
    const int64_t sizes[] = {16, 17, 31, 32, 33, 63, 70};
    for (int x = 0; x < 7 * 7 * 7 * 8; ++x) {
        wrong |= check(sizes[x % 7], sizes[x / 7 % 7], sizes[x / 49 % 7], x / 343);
    }
    wrong |= check(16, 16, 1, 0) | check(70, 33, 2, 3) | check(16, 90, 5, 7);
    // Below the normal range: an element, and the last digit of a product, but not that of larger ones.
    if (!refuses(0x0001, 0x3f80) || !refuses(0x3f80, 0x007f) || !refuses(0x0080, 0x4080)) wrong = 1;
    if (!refuses(0x0400, 0x3f80) || refuses(0x0800, 0x3f80) || refuses(0, 0) || refuses(0x7f80, 0x7fc0)) wrong = 1;
    if (wrong) fprintf(stderr, "tiles_check: wrong\n");
    return wrong;
}
