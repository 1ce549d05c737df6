// strided copy: out[i·stride] = in[i·stride].
//
// A warp touches 32 elements that lie 4·stride bytes apart. Memory moves in segments of 32 bytes, so
// of each segment only the 8/stride-th part is asked for, and from stride 8 on one element of eight.
//
// Launch: blocks of any size, a thread for each of `count` elements.
extern "C" __global__ void copy(float* out, const float* in, long long count, long long stride)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i * stride] = in[i * stride];
}
