// Copies with stores that bypass the caches. Ordinary stores first read each line that they write, and leave it
// in the caches, where nobody needs it soon.
#pragma once

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)

#include <emmintrin.h>

enum { STREAMS = 1 };  // whether stores can bypass the caches

// Whole lines only: a part of one would have to be merged with memory. Call finish_streaming after the last row,
// before the copy is announced.
static inline void stream_row(char* target, const char* source, int64_t bytes)
{
    enum { LINE_BYTES = 64, VECTORS = LINE_BYTES / sizeof(__m128i) };
    int64_t before = -(uintptr_t)target % LINE_BYTES;
    if (before > bytes) before = bytes;
    memcpy(target, source, before);
    int64_t i = before;
    for (; i + LINE_BYTES <= bytes; i += LINE_BYTES) {
        __m128i line[VECTORS];
        for (int j = 0; j < VECTORS; ++j) line[j] = _mm_loadu_si128((const __m128i*)(source + i) + j);
        for (int j = 0; j < VECTORS; ++j) _mm_stream_si128((__m128i*)(target + i) + j, line[j]);
    }
    memcpy(target + i, source + i, bytes - i);
}

static inline void finish_streaming(void) { _mm_sfence(); }

#else

enum { STREAMS = 0 };

static inline void stream_row(char* target, const char* source, int64_t bytes) { memcpy(target, source, bytes); }

static inline void finish_streaming(void) {}

#endif
