// pitched copy: a matrix whose rows begin `pitch` elements apart.
//
// With a pitch that is a multiple of a line of 128 bytes, the rows begin where lines begin; with the
// width as the pitch, most rows begin inside one.
//
// Launch: blocks of any size, each for that many columns of one row; grid (pieces of a row, at most
// 65535): a block takes every gridDim.y-th row.
extern "C" __global__ void copy(float* out, const float* in, long long rows, int width, long long pitch)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) return;
    for (long long row = blockIdx.y; row < rows; row += gridDim.y) {
        out[row * pitch + column] = in[row * pitch + column];
    }
}
