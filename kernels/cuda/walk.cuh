// The walk of a persistent block over the tiles of C ("Stream-K": Osama et al. 2023).
//
// `workers` blocks compute `tiles` tiles of `steps_k` steps of k each. The first `shared_tiles` tiles
// are one row of shared_tiles · steps_k steps, of which every worker takes an equal stretch, wherever
// that begins and ends within a tile; so a last, partly filled wave keeps all workers busy. The other
// tiles are whole: worker w computes tiles shared_tiles + w, shared_tiles + w + workers, …
//
// Who computes a tile's last steps owns it. At its end a stretch may hold the first steps of a tile
// that a later worker owns: its contribution, which comes first in the walk, so that owners find it
// ready, and wait only for workers of smaller numbers, which the GPU starts no later than them.
#pragma once

struct Walk {
    int tiles;
    int shared_tiles;
    int steps_k;
    int worker;
    int workers;
    int own_tile;   // of the stretch: the first that this worker owns,
    int own_first;  // its first step,
    int own_end;    // and the first tile that it does not own
    int tile;       // at hand, with its first step and the number of steps
    int first;
    int steps;
    bool contributes;

    __device__ __forceinline__ Walk(int tiles, int shared_tiles, int steps_k)
        : tiles(tiles), shared_tiles(shared_tiles), steps_k(steps_k), worker(blockIdx.x), workers(gridDim.x)
    {
        const long long from = find_stretch(worker);
        const long long to = find_stretch(worker + 1);
        own_tile = int(from / steps_k);
        own_first = int(from % steps_k);
        own_end = int(to / steps_k);
        const int last = int(to % steps_k);
        contributes = last > 0 && to > from;
        if (contributes) {
            tile = own_end;
            first = own_tile == own_end ? own_first : 0;
            steps = last - first;
        } else {
            go_to(own_tile, own_first);
        }
    }

    // Where a worker's stretch begins. With fewer steps than workers, some stretches are empty.
    __device__ __forceinline__ long long find_stretch(int of) const
    {
        return (long long)shared_tiles * steps_k * of / workers;
    }

    __device__ __forceinline__ bool has_stretch(int of) const { return find_stretch(of) < find_stretch(of + 1); }

    __device__ __forceinline__ void go_to(int shared_tile, int from)
    {
        const bool is_own = shared_tile < own_end;
        tile = is_own ? shared_tile : shared_tiles + worker;
        first = is_own ? from : 0;
        steps = steps_k - first;
    }

    __device__ __forceinline__ void advance()
    {
        if (contributes) {
            contributes = false;
            go_to(own_tile, own_first);
        } else if (tile < shared_tiles) {
            go_to(tile + 1, 0);
        } else {
            tile += workers;
        }
    }

    __device__ __forceinline__ bool has_work() const { return tile < tiles; }

    // The first worker that contributes to the tile at hand, if its first step is not the tile's. So do
    // all up to this one that have a stretch.
    __device__ __forceinline__ int find_contributor() const
    {
        const long long steps_before = (long long)tile * steps_k;
        return int(((steps_before + 1) * workers - 1) / ((long long)shared_tiles * steps_k));
    }
};
