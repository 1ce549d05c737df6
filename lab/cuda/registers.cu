// Register pressure: each thread holds VALUES numbers and goes round them again and again.
//
// __launch_bounds__ promises that BLOCKS_PER_SM blocks fit a multiprocessor at once, which leaves a
// thread 65536 / (THREADS · BLOCKS_PER_SM) registers at most. Where they are too few, the compiler
// keeps values in local memory: it spills them.
//
// Launch: blocks of THREADS threads; values has VALUES numbers a thread, those of one thread as many
// apart as there are threads. Each thread leaves the sum of what it holds in out.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) turn(
    float* out, const float* values, float share, int rounds)
{
    const long long thread = (long long)blockIdx.x * THREADS + threadIdx.x;
    const long long threads = (long long)gridDim.x * THREADS;
    float held[VALUES];
#pragma unroll
    for (int j = 0; j < VALUES; ++j) held[j] = values[j * threads + thread];
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
#pragma unroll
        for (int j = 0; j < VALUES; ++j) {
            held[j] = fmaf(share, held[(j + 1) % VALUES] - held[j], held[j]);
        }
    }
    float sum = 0;
#pragma unroll
    for (int j = 0; j < VALUES; ++j) sum += held[j];
    out[thread] = sum;
}
