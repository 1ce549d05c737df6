// What every kernel of C ← αA·B + βC shares.
//
// C[M,N] = A[M,K] · B[K,N], all row-major. A row of A, B or C starts lda, ldb or ldc elements
// after the one before it; these are at least the number of columns, and what lies between the
// rows is neither read nor written. Sizes and offsets are 64 bits wide, because M·lda and its
// like pass 2^31; positions inside a tile are 32 bits wide.
//
// The grid is linear: block number t computes tile t of C. (gridDim.y ends at 65535, which is
// 262140 rows in tiles of 4; gridDim.x ends at 2^31 - 1.)
//
// Compiled with ELEMENT defined as float or double. Denormals are kept, and a product followed
// by a sum becomes one fused multiply-add.
#pragma once

typedef ELEMENT element;

// C ← α·sum + βC for one element. When β is 0, C is not read: what it held, NaN too, is gone.
__device__ __forceinline__ void update(element* c, element sum, element alpha, element beta)
{
    *c = beta == element(0) ? alpha * sum : alpha * sum + beta * *c;
}
