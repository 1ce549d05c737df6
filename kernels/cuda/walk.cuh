// The walk of a persistent block over the tiles of C (stream-K: Osama et al. 2023).
//
// `workers` blocks compute `tiles` tiles of `steps_k` steps of k each. The first `shared_tiles` tiles
// form one sequence of shared_tiles · steps_k steps. Each worker takes an equal stretch of it, which
// may begin and end inside a tile; so a partly filled wave keeps all workers busy. The other tiles are
// computed whole: worker w takes the tiles shared_tiles + w, shared_tiles + w + workers, …
//
// The worker with a tile's last steps owns the tile and adds up all contributions. A stretch may end
// with the first steps of a tile that a later worker owns. This contribution is computed first, so that
// it is ready when the owner needs it. An owner waits only for workers of smaller numbers, which the GPU
// starts no later than the owner.
#pragma once

struct Walk {
    int tiles;
    int shared_tiles;
    int steps_k;
    int worker;
    int workers;
    int own_tile;      // first tile of the stretch that this worker owns
    int own_first;     // its first step in this worker's stretch
    int own_end;       // first tile that this worker does not own
    int tile;          // current tile
    int first;         // first step of the current tile
    int steps;         // number of steps of the current tile
    bool contributes;  // whether another worker owns the current tile

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

    // First step of a worker's stretch. With fewer steps than workers, some stretches are empty.
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

    // The first worker that contributes to the current tile, if this worker begins inside it. The workers
    // in between contribute, too, if they have a stretch.
    __device__ __forceinline__ int find_contributor() const
    {
        const long long steps_before = (long long)tile * steps_k;
        return int(((steps_before + 1) * workers - 1) / ((long long)shared_tiles * steps_k));
    }
};
