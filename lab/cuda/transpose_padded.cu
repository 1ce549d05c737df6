// padded transpose: through a 32×33 tile in shared memory.
//
// The padding word at the end of each row shifts the next row by one bank. So the words of a column are
// in 32 different banks, and a warp reads them without conflicts.
//
// Launch: blocks of (32, 32) threads, one for each 32×32 tile of `in`, columns of tiles in x.
#include "transpose_tiled.cuh"

extern "C" __global__ void __launch_bounds__(1024) transpose(
    float* out, const float* in, long long rows, long long columns)
{
    transpose_tile<33>(out, in, rows, columns);
}
