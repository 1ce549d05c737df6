// spin: occupies multiprocessors for a number of clock cycles without using memory.
//
// Launch: any.
extern "C" __global__ void spin(long long cycles)
{
    const long long start = clock64();
    while (clock64() - start < cycles) {}
}
