// Reads of a small table from constant memory, and from global memory through the read-only cache.
//
// Lane l reads the words (i + l mod distinct) mod 256 for i = 0, 1, …, so a warp reads `distinct`
// different words at once. The constant cache broadcasts one word a cycle and serializes different
// words; L1 delivers the words of a line together.
//
// Launch: one block of whole warps a multiprocessor. cycles[block]; sums[thread of block 0].
constexpr int WORDS = 256;

struct Table {
    float at[WORDS];
    __host__ __device__ constexpr Table() : at{}
    {
        for (int i = 0; i < WORDS; ++i) at[i] = float(i);
    }
};

__constant__ Table table;

struct Constant {
    __device__ float load(int i) const { return table.at[i]; }
};

struct Global {
    const float* words;
    __device__ float load(int i) const { return __ldg(words + i); }
};

template <class Source>
__device__ __forceinline__ void read(
    long long* cycles, float* sums, Source source, int loads, int distinct)
{
    const int first = threadIdx.x % 32 % distinct;
    float sum = 0;
    for (int i = 0; i < WORDS; ++i) sum += source.load(i);  // the caches are warm from here on
    sum *= 0;
    __syncthreads();
    const long long start = clock64();
#pragma unroll 32
    for (int i = 0; i < loads; ++i) sum += source.load((i + first) % WORDS);
    __syncthreads();
    const long long end = clock64();
    if (threadIdx.x == 0) cycles[blockIdx.x] = end - start;
    if (blockIdx.x == 0) sums[threadIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(1024) read_constant(
    long long* cycles, float* sums, const float*, int loads, int distinct)
{
    read(cycles, sums, Constant{}, loads, distinct);
}

extern "C" __global__ void __launch_bounds__(1024) read_global(
    long long* cycles, float* sums, const float* words, int loads, int distinct)
{
    read(cycles, sums, Global{words}, loads, distinct);
}
