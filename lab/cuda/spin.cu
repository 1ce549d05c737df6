// Keeps multiprocessors busy, without memory, for a number of cycles of their clock.
//
// Launch: any.
extern "C" __global__ void spin(long long cycles)
{
    const long long start = clock64();
    while (clock64() - start < cycles) {}
}
