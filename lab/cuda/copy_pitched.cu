// pitched copy: a matrix whose rows begin `pitch` elements apart.
//
// If the pitch is a multiple of 128 bytes, rows begin at cache lines. If it is the width, most rows begin
// inside a line.
//
// Launch: blocks of any size, a thread a column; grid (blocks that cover a row, at most 65535). A block
// takes every gridDim.y-th row.
extern "C" __global__ void copy(float* out, const float* in, long long rows, int width, long long pitch)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) return;
    for (long long row = blockIdx.y; row < rows; row += gridDim.y) {
        out[row * pitch + column] = in[row * pitch + column];
    }
}
