// The order in which the tiles of C are computed (a swizzle for L2).
//
// Tiles are numbered column by column within GROUP rows of tiles. So tiles that run at the same time
// form a roughly square part of C, which needs the fewest rows of A and columns of B in L2.
#pragma once

constexpr int GROUP = 8;  // rows of tiles; 4 and 16 were as fast (register kernel, H200)

__device__ __forceinline__ int clamp_to_int(long long value, int limit)
{
    return value < limit ? int(value) : limit;
}

// Where a tile of C lies, counted in tiles.
struct TileIndex {
    long long row;
    long long column;
};

// The tile of this number.
__device__ __forceinline__ TileIndex find_tile(long long tile, long long tiles_m, long long tiles_n)
{
    const long long group = tile / (GROUP * tiles_n);
    const int height = clamp_to_int(tiles_m - group * GROUP, GROUP);
    const long long rest = tile - group * GROUP * tiles_n;
    return {group * GROUP + rest % height, rest / height};
}
