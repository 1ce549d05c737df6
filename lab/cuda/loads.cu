// Four ways to load from global memory: out[i] = Σ in[i·stride + offset + t] over t < taps.
//
// read_cached    ld.global.ca: through L1, whose lines have 128 bytes
// read_uncached  ld.global.cg: past L1, from L2 in segments of 32 bytes
// read_only      ld.global.nc: through the read-only path of L1, as __ldg does
// read_texture   a fetch from a one-dimensional texture over the same memory
//
// At stride 1 neighbouring threads share all but one of their taps, which L1 may load only once.
//
// Launch: blocks of any size, a thread for each of `count` elements of out.
struct Cached {
    const float* in;
    __device__ float load(long long i) const
    {
        float value;
        asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(value) : "l"(in + i));
        return value;
    }
};

struct Uncached {
    const float* in;
    __device__ float load(long long i) const
    {
        float value;
        asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(value) : "l"(in + i));
        return value;
    }
};

struct ReadOnly {
    const float* in;
    __device__ float load(long long i) const
    {
        float value;
        asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(value) : "l"(in + i));
        return value;
    }
};

struct Texture {
    cudaTextureObject_t in;
    __device__ float load(long long i) const { return tex1Dfetch<float>(in, (int)i); }
};

template <class Way>
__device__ __forceinline__ void read(
    float* out, Way way, long long count, long long stride, long long offset, int taps)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const long long first = i * stride + offset;
    float sum = 0;
    for (int t = 0; t < taps; ++t) sum += way.load(first + t);
    out[i] = sum;
}

extern "C" __global__ void read_cached(
    float* out, const float* in, long long count, long long stride, long long offset, int taps)
{
    read(out, Cached{in}, count, stride, offset, taps);
}

extern "C" __global__ void read_uncached(
    float* out, const float* in, long long count, long long stride, long long offset, int taps)
{
    read(out, Uncached{in}, count, stride, offset, taps);
}

extern "C" __global__ void read_only(
    float* out, const float* in, long long count, long long stride, long long offset, int taps)
{
    read(out, ReadOnly{in}, count, stride, offset, taps);
}

extern "C" __global__ void read_texture(
    float* out, cudaTextureObject_t in, long long count, long long stride, long long offset, int taps)
{
    read(out, Texture{in}, count, stride, offset, taps);
}
