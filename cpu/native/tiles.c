// Parts of products of bfloat16 by the tiles of the CPU (Intel AMX), which sum in single precision.
//
// A tile has 16 rows of 64 bytes: 16 rows of A with 32 elements of K each, or 16 pairs of rows of B, in which the
// two elements of a column are adjacent. A and B are packed into tiles, padded with zeros, and four tiles of C are
// summed at a time.
//
// Tiles treat subnormal numbers as 0, and flush such sums to 0. So they multiply only parts in which all products
// are whole multiples of one normal number: then sums are, too, and none is subnormal.
#include "bfloats.h"

#include <string.h>

#if defined(__x86_64__) && (__GNUC__ >= 11 || __clang_major__ >= 12)
#include <immintrin.h>

enum {
    SIDE = 16,  // rows of a tile, and columns of C's
    DEPTH = 32,  // elements of K
    TILE = SIDE * DEPTH,  // elements of a tile of A or B
    PAIR = 2 * SIDE,  // rows and columns of four tiles of C
    LINE_BYTES = 64,
    FEWEST = 16,  // least rows and columns: with fewer, most of a tile is padding
    MOST_SIDES = 8192,  // most rows plus K, and columns plus K: with padding they fit the memory
    LEAST_EXPONENTS = 254 - 126 + 14,  // least sum of exponents: a product's last bit, 14 bits down, is normal
    LANES = 8,
};

typedef int16_t Shorts __attribute__((vector_size(2 * LANES)));

#ifndef FOR_TILES  // a test emulates them, for machines without

#define FOR_TILES __attribute__((target("amx-tile,amx-bf16")))
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };  // arch_prctl, as Linux documents it

// A process must ask the system for permission to use tiles.
static int find_tiles(void)
{
    unsigned a, b, c, d, low, high;
    const unsigned wanted = 1u << 22 | 1u << 24;  // AMX-BF16, AMX-TILE
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & wanted) != wanted) return 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 27)) return 0;  // OSXSAVE
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    if ((low & 3u << 17) != 3u << 17) return 0;
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

int has_tiles(void)
{
    static _Atomic int known;  // 1: no, 2: yes
    if (!atomic_load(&known)) atomic_store(&known, 1 + find_tiles());
    return atomic_load(&known) == 2;
}

typedef struct {
    uint8_t palette, start, reserved[14];
    uint16_t line_bytes[16];
    uint8_t rows[16];
} __attribute__((aligned(64))) Configuration;

static const Configuration whole = {
    .palette = 1,
    .line_bytes = {LINE_BYTES, LINE_BYTES, LINE_BYTES, LINE_BYTES, LINE_BYTES, LINE_BYTES, LINE_BYTES, LINE_BYTES},
    .rows = {SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE},
};

#define BEGIN_TILES() _tile_loadconfig(&whole)
#define END_TILES() _tile_release()
#define CLEAR(c) _tile_zero(c)
#define LOAD(tile, source) _tile_loadd(tile, source, LINE_BYTES)
#define ADD_PRODUCTS(c, a, b) _tile_dpbf16ps(c, a, b)
#define STORE(c, target) _tile_stored(c, target, PAIR * sizeof(float))

#endif

static uint16_t read_bfloat(const char* element)
{
    uint16_t bfloat;
    memcpy(&bfloat, element, sizeof bfloat);
    return bfloat;
}

// Pack A for `count` tiles along its rows, each with all of K.
static void pack_left(Source a, int64_t rows, int64_t depth, int64_t count, uint16_t* packed)
{
    const int64_t chunks = divide_up(depth, DEPTH);
    memset(packed, 0, count * chunks * TILE * sizeof *packed);
    for (int64_t i = 0; i < rows; ++i) {
        uint16_t* const line = packed + i / SIDE * chunks * TILE + i % SIDE * DEPTH;
        const char* const source = a.data + i * a.row;
        for (int64_t l = 0; l < depth; l += DEPTH) {
            const int64_t length = least(DEPTH, depth - l);
            uint16_t* const target = line + l / DEPTH * TILE;
            if (a.column == sizeof(uint16_t)) {
                memcpy(target, source + l * sizeof(uint16_t), length * sizeof(uint16_t));
            } else {
                for (int64_t x = 0; x < length; ++x) target[x] = read_bfloat(source + (l + x) * a.column);
            }
        }
    }
}

// Interleave the elements of two lines, 16 of each.
static void interleave(uint16_t* target, const char* first, const char* second)
{
    for (int half = 0; half < 2; ++half) {
        const __m128i a = _mm_loadu_si128((const __m128i*)first + half);
        const __m128i b = _mm_loadu_si128((const __m128i*)second + half);
        _mm_storeu_si128((__m128i*)target + 2 * half, _mm_unpacklo_epi16(a, b));
        _mm_storeu_si128((__m128i*)target + 2 * half + 1, _mm_unpackhi_epi16(a, b));
    }
}

// Pack B for `count` tiles along its columns, each with all of K.
static void pack_right(Source b, int64_t depth, int64_t columns, int64_t count, uint16_t* packed)
{
    const int64_t chunks = divide_up(depth, DEPTH);
    memset(packed, 0, count * chunks * TILE * sizeof *packed);
    for (int64_t l = 0; l < depth; l += 2) {
        const char* const source = b.data + l * b.row;
        const int pairs = l + 1 < depth;
        for (int64_t j = 0; j < columns; j += SIDE) {
            uint16_t* const target = packed + (j / SIDE * chunks + l / DEPTH) * TILE + l % DEPTH / 2 * DEPTH;
            const char* const elements = source + j * b.column;
            const int64_t length = least(SIDE, columns - j);
            if (b.column == sizeof(uint16_t) && pairs && length == SIDE) {
                interleave(target, elements, elements + b.row);
                continue;
            }
            for (int64_t x = 0; x < length; ++x) {
                target[2 * x] = read_bfloat(elements + x * b.column);
                if (pairs) target[2 * x + 1] = read_bfloat(elements + b.row + x * b.column);
            }
        }
    }
}

// The least exponent of the elements that are not 0; 0 if one is subnormal.
static int find_least_exponent(const uint16_t* packed, int64_t count)
{
    const Shorts most = (Shorts){0} + 0x7fff;
    Shorts smallest = most;
    for (int64_t i = 0; i < count; i += LANES) {
        Shorts magnitudes;
        memcpy(&magnitudes, packed + i, sizeof magnitudes);
        magnitudes &= most;
        magnitudes |= (magnitudes == 0) & most;
        const Shorts less = magnitudes < smallest;
        smallest = (magnitudes & less) | (smallest & ~less);
    }
    int found = 0x7fff;
    for (int lane = 0; lane < LANES; ++lane) found = smallest[lane] < found ? smallest[lane] : found;
    return found >> 7;
}

// The products of two tiles of A and two of B, along K.
FOR_TILES static void multiply_pair(const uint16_t* a, const uint16_t* b, int64_t chunks, float* sum)
{
    const uint16_t* const lower = a + chunks * TILE;
    const uint16_t* const right = b + chunks * TILE;
    CLEAR(0);
    CLEAR(1);
    CLEAR(2);
    CLEAR(3);
    for (int64_t at = 0; at < chunks * TILE; at += TILE) {
        LOAD(4, a + at);
        LOAD(5, lower + at);
        LOAD(6, b + at);
        LOAD(7, right + at);
        ADD_PRODUCTS(0, 4, 6);
        ADD_PRODUCTS(1, 4, 7);
        ADD_PRODUCTS(2, 5, 6);
        ADD_PRODUCTS(3, 5, 7);
    }
    STORE(0, sum);
    STORE(1, sum + SIDE);
    STORE(2, sum + SIDE * PAIR);
    STORE(3, sum + SIDE * PAIR + SIDE);
}

FOR_TILES int multiply_by_tiles(
    Source a, Source b, int64_t rows, int64_t columns, int64_t depth, float* total, int begins, float* memory)
{
    if (rows < FEWEST || columns < FEWEST) return 0;
    if (rows + depth > MOST_SIDES || columns + depth > MOST_SIDES) return 0;
    const int64_t down = divide_up(rows, PAIR), across = divide_up(columns, PAIR);
    const int64_t chunks = divide_up(depth, DEPTH);
    uint16_t* const left = (uint16_t*)memory;
    uint16_t* const right = (uint16_t*)(memory + TEMPORARY_ELEMENTS);
    pack_left(a, rows, depth, 2 * down, left);
    pack_right(b, depth, columns, 2 * across, right);
    const int one = find_least_exponent(left, 2 * down * chunks * TILE);
    const int other = find_least_exponent(right, 2 * across * chunks * TILE);
    if (one == 0 || other == 0 || one + other < LEAST_EXPONENTS) return 0;
    BEGIN_TILES();
    for (int64_t j = 0; j < across; ++j) {
        for (int64_t i = 0; i < down; ++i) {
            float sum[PAIR * PAIR];
            multiply_pair(left + 2 * i * chunks * TILE, right + 2 * j * chunks * TILE, chunks, sum);
            const int64_t height = least(PAIR, rows - i * PAIR), width = least(PAIR, columns - j * PAIR);
            for (int64_t x = 0; x < height; ++x) {
                float* const target = total + (i * PAIR + x) * columns + j * PAIR;
                for (int64_t y = 0; y < width; ++y) target[y] = sum[x * PAIR + y] + (begins ? 0 : target[y]);
            }
        }
    }
    END_TILES();
    return 1;
}

#else

int has_tiles(void) { return 0; }

int multiply_by_tiles(
    Source a, Source b, int64_t rows, int64_t columns, int64_t depth, float* total, int begins, float* memory)
{
    (void)a, (void)b, (void)rows, (void)columns, (void)depth, (void)total, (void)begins, (void)memory;
    return 0;
}

#endif
