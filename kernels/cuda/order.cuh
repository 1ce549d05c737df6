// The order in which the tiles of C are computed.
//
// Tiles that are computed at the same time cover GROUP rows of tiles, column by column: a block
// of C about as high as wide, which needs the fewest different rows of A and columns of B in L2.
#pragma once

constexpr int GROUP = 8;

__device__ __forceinline__ int clamp_to_int(long long value, int limit)
{
    return value < limit ? int(value) : limit;
}

struct Place {
    long long row;     // of tiles
    long long column;  // of tiles
};

__device__ __forceinline__ Place find_place(long long tile, long long tiles_m, long long tiles_n)
{
    const long long group = tile / (GROUP * tiles_n);
    const int height = clamp_to_int(tiles_m - group * GROUP, GROUP);
    const long long rest = tile - group * GROUP * tiles_n;
    return {group * GROUP + rest % height, rest / height};
}
