// naive transpose: out[column][row] = in[row][column] without shared memory.
//
// A warp reads part of a row (coalesced) and writes a column: 4 bytes in each of 32 segments of 32 bytes.
//
// Launch: blocks of (32, 32) threads, one for each 32×32 tile of `in`, columns of tiles in x.
extern "C" __global__ void __launch_bounds__(1024) transpose(
    float* out, const float* in, long long rows, long long columns)
{
    const long long column = (long long)blockIdx.x * 32 + threadIdx.x;
    const long long row = (long long)blockIdx.y * 32 + threadIdx.y;
    if (row < rows && column < columns) out[column * rows + row] = in[row * columns + column];
}
