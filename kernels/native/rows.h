// A row copied past the caches.
#pragma once

#include <stdint.h>

// Copy a row that no core will read soon, as memcpy does. Short rows memcpy leaves, changed, in the
// caches of the cores that copied them: a device that reads them next waits for each line to be fetched
// from there. Behind the last row finish_streaming is due, before others are told.
void stream_row(char* target, const char* source, int64_t bytes);

void finish_streaming(void);
