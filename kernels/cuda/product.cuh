// Shared by all kernels of C ← αA·B + βC.
//
// C[M,N] = A[M,K] · B[K,N], all row-major. lda, ldb and ldc are the leading dimensions in elements, at
// least the number of columns; padding between rows is neither read nor written. Sizes and offsets
// have 64 bits, because products such as M·lda exceed 2^31; positions inside a tile have 32 bits.
//
// The grid is one-dimensional: block t computes tile t of C. (gridDim.y is at most 65535, which is
// 262140 rows in tiles of 4; gridDim.x is at most 2^31 - 1.)
//
// Compiled with ELEMENT defined as float or double. Denormals are kept, and multiply-adds are fused.
#pragma once

typedef ELEMENT element;

// C ← α·sum + βC for one element. When β is 0, C is not read, so a NaN in it is overwritten.
__device__ __forceinline__ void update(element* c, element sum, element alpha, element beta)
{
    *c = beta == element(0) ? alpha * sum : alpha * sum + beta * *c;
}
