// Bank conflicts: each lane of a warp repeatedly reads the word lane/group·stride of shared memory, timed
// by the multiprocessor's clock.
//
// Shared memory has 32 banks of 4 bytes; each delivers one word a cycle. Reads of different words of one
// bank are serialized: a stride with the common factor n with 32 takes n cycles. Lanes that read the same
// word share one read (stride 0: a broadcast; group 2: multicasts to pairs).
//
// Launch: one block of whole warps a multiprocessor. cycles[block]; sums[thread of block 0].
constexpr int WORDS = 32 * 33;

extern "C" __global__ void __launch_bounds__(1024) read(
    long long* cycles, float* sums, int loads, int stride, int group)
{
    __shared__ float words[WORDS];
    for (int i = threadIdx.x; i < WORDS; i += blockDim.x) words[i] = i;
    const volatile float* word = words + threadIdx.x % 32 / group * stride;
    __syncthreads();
    const long long start = clock64();
    float sum = 0;
#pragma unroll 32
    for (int i = 0; i < loads; ++i) sum += *word;
    __syncthreads();
    const long long end = clock64();
    if (threadIdx.x == 0) cycles[blockIdx.x] = end - start;
    if (blockIdx.x == 0) sums[threadIdx.x] = sum;
}
