#include "rows.h"

#include <string.h>

#if defined(__SSE2__)

#include <emmintrin.h>

enum { VECTOR = 16, BATCH = 4 * VECTOR };

void stream_row(char* target, const char* source, int64_t bytes)
{
    int64_t before = -(uintptr_t)target % VECTOR;
    if (before > bytes) before = bytes;
    memcpy(target, source, before);
    int64_t i = before;
    for (; i + BATCH <= bytes; i += BATCH) {
        __m128i part[BATCH / VECTOR];
        for (int j = 0; j < BATCH / VECTOR; ++j) part[j] = _mm_loadu_si128((const __m128i*)(source + i) + j);
        for (int j = 0; j < BATCH / VECTOR; ++j) _mm_stream_si128((__m128i*)(target + i) + j, part[j]);
    }
    memcpy(target + i, source + i, bytes - i);
}

void finish_streaming(void) { _mm_sfence(); }

#else

void stream_row(char* target, const char* source, int64_t bytes) { memcpy(target, source, bytes); }

void finish_streaming(void) {}

#endif
