// shared transpose: through a 32×32 tile in shared memory.
//
// Global memory is read and written in whole lines. But a warp reads a column of the tile, whose words
// are 32 apart, all in one of the 32 banks: a 32-fold bank conflict.
//
// Launch: blocks of (32, 32) threads, one for each 32×32 tile of `in`, columns of tiles in x.
#include "transpose_tiled.cuh"

extern "C" __global__ void __launch_bounds__(1024) transpose(
    float* out, const float* in, long long rows, long long columns)
{
    transpose_tile<32>(out, in, rows, columns);
}
