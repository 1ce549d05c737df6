// walk.cuh on the host: prints what each worker does, for cases read from standard input.
//
// In: lines of tiles, shared_tiles, steps_k, workers. Out, for each case: lines of worker, tile, first,
// steps, contributes (0 or 1), and the workers that a tile's owner waits for; then an empty line.
#include <cstdio>

#define __device__
#define __forceinline__ inline

struct Index {
    int x;
};
static Index blockIdx, gridDim;

#include "walk.cuh"

int main()
{
    int tiles, shared_tiles, steps_k, workers;
    while (std::scanf("%d %d %d %d", &tiles, &shared_tiles, &steps_k, &workers) == 4) {
        gridDim.x = workers;
        for (int worker = 0; worker < workers; ++worker) {
            blockIdx.x = worker;
            for (Walk walk(tiles, shared_tiles, steps_k); walk.has_work(); walk.advance()) {
                std::printf("%d %d %d %d %d", worker, walk.tile, walk.first, walk.steps, int(walk.contributes));
                if (!walk.contributes && walk.first > 0) {
                    for (int other = walk.find_contributor(); other < worker; ++other) {
                        if (walk.has_stretch(other)) std::printf(" %d", other);
                    }
                }
                std::printf("\n");
            }
        }
        std::printf("\n");
    }
}
