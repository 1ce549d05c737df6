// A transpose through a tile in shared memory: reads rows of `in` and writes rows of `out`, both
// coalesced. Rows of the tile are TILE_PITCH words apart.
#pragma once

template <int TILE_PITCH>
__device__ __forceinline__ void transpose_tile(
    float* out, const float* in, long long rows, long long columns)
{
    __shared__ float tile[32 * TILE_PITCH];
    const long long column = (long long)blockIdx.x * 32 + threadIdx.x;
    const long long row = (long long)blockIdx.y * 32 + threadIdx.y;
    if (row < rows && column < columns) {
        tile[threadIdx.y * TILE_PITCH + threadIdx.x] = in[row * columns + column];
    }
    __syncthreads();
    const long long out_column = (long long)blockIdx.y * 32 + threadIdx.x;
    const long long out_row = (long long)blockIdx.x * 32 + threadIdx.y;
    if (out_row < columns && out_column < rows) {
        out[out_row * rows + out_column] = tile[threadIdx.x * TILE_PITCH + threadIdx.y];
    }
}
