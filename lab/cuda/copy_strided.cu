// strided copy: out[i·stride] = in[i·stride].
//
// A warp accesses 32 elements that are 4·stride bytes apart. Memory moves in segments of 32 bytes, so
// 8/stride of the 8 elements of a segment are used, and one of eight from stride 8 on.
//
// Launch: blocks of any size, a thread for each of `count` elements.
extern "C" __global__ void copy(float* out, const float* in, long long count, long long stride)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i * stride] = in[i * stride];
}
