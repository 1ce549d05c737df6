// offset copy: out[i + offset] = in[i + offset].
//
// Neighbouring threads access neighbouring elements. Unless the offset is a multiple of 8 elements (a
// segment of 32 bytes), the 128 bytes of a warp begin and end inside segments.
//
// Launch: blocks of any size, a thread for each of `count` elements.
extern "C" __global__ void copy(float* out, const float* in, long long count, long long offset)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i + offset] = in[i + offset];
}
