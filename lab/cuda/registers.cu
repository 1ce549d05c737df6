// Register pressure: each thread repeatedly updates VALUES live values.
//
// __launch_bounds__ requires that BLOCKS_PER_SM blocks fit a multiprocessor, which leaves a thread at
// most 65536 / (THREADS · BLOCKS_PER_SM) registers. If these are too few, the compiler spills values to
// local memory.
//
// Launch: blocks of THREADS threads. `values` has VALUES numbers for each thread, interleaved over all
// threads. Each thread stores the sum of its values in `out`.
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
