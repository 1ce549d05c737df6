// copy of vectors: each thread copies LOADS vectors, all loads before the first store.
//
// The latency of memory is some hundred nanoseconds, so its full rate needs enough bytes in flight:
// threads · LOADS · bytes of a vector. Wider loads also need fewer instructions.
//
// Launch: blocks of any size, a thread for each LOADS vectors. Addresses are multiples of a vector.
template <typename Vector>
__device__ void move(Vector* out, const Vector* in, long long count)
{
    const long long first = (long long)blockIdx.x * blockDim.x * LOADS + threadIdx.x;
    Vector held[LOADS];
#pragma unroll
    for (int j = 0; j < LOADS; ++j) {
        const long long i = first + (long long)j * blockDim.x;
        if (i < count) held[j] = in[i];
    }
#pragma unroll
    for (int j = 0; j < LOADS; ++j) {
        const long long i = first + (long long)j * blockDim.x;
        if (i < count) out[i] = held[j];
    }
}

extern "C" __global__ void copy_1(float* out, const float* in, long long count)
{
    move(out, in, count);
}

extern "C" __global__ void copy_2(float2* out, const float2* in, long long count)
{
    move(out, in, count);
}

extern "C" __global__ void copy_4(float4* out, const float4* in, long long count)
{
    move(out, in, count);
}
