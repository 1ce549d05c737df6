// Elements of 16 bits, float16 or bfloat16: their products by wgmma, summed in float32, and conversions.
//
// Compiled with ELEMENT defined as f16 or bf16, which is PTX's name of the element type.
#pragma once
#include "wgmma.cuh"

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

typedef unsigned short Half;  // bits of an element

#define SIXTY_FOUR(d, i) \
    EIGHT(d, i), EIGHT(d, i + 8), EIGHT(d, i + 16), EIGHT(d, i + 24), EIGHT(d, i + 32), EIGHT(d, i + 40), \
        EIGHT(d, i + 48), EIGHT(d, i + 56)

// Start d ← a·b (+ d if `accumulate`) for 64 × 256 elements and 16 steps of k. Lines of A go along k, lines of
// B along its columns.
__device__ __forceinline__ void start_product(float (&d)[128], Descriptor a, Descriptor b, int accumulate)
{
    asm volatile(
        "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32." TEXT(ELEMENT) "." TEXT(ELEMENT) " "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, accumulate, 1, 1, 0, 1;\n}"
        : SIXTY_FOUR(d, 0), SIXTY_FOUR(d, 64)
        : "l"(a), "l"(b), "r"(accumulate));
}

// The same for 64 × 128 elements.
__device__ __forceinline__ void start_product(float (&d)[64], Descriptor a, Descriptor b, int accumulate)
{
    asm volatile(
        "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." TEXT(ELEMENT) "." TEXT(ELEMENT) " "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, accumulate, 1, 1, 0, 1;\n}"
        : SIXTY_FOUR(d, 0)
        : "l"(a), "l"(b), "r"(accumulate));
}

__device__ __forceinline__ float widen(Half bits)
{
    float x;
    asm("cvt.f32." TEXT(ELEMENT) " %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}

// Round two sums to elements, packed in one register.
__device__ __forceinline__ unsigned round_pair(float low, float high)
{
    unsigned pair;
    asm("cvt.rn." TEXT(ELEMENT) "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
