/* What benchmarks/host/baselines/xt_library.py calls, with the prototypes of NVIDIA's cublasXt.h.
 * The product is computed by the CPU routine that was set, or by a triple loop, column-major. */
#include <stddef.h>

typedef struct Context {
  int count, devices[8], block, pinning;
  float ratio[4];
  void *routine[4];
} Context;
typedef void (*Sgemm)(const char *, const char *, const int *, const int *, const int *,
                      const float *, const float *, const int *, const float *, const int *,
                      const float *, float *, const int *);
typedef void (*Dgemm)(const char *, const char *, const int *, const int *, const int *,
                      const double *, const double *, const int *, const double *, const int *,
                      const double *, double *, const int *);

static Context only;
static int refused;

int cublasXtCreate(Context **handle) {
  *handle = &only;
  return 0;
}

int cublasXtDestroy(Context *handle) { return handle == &only ? 0 : 1; }

int cublasXtDeviceSelect(Context *handle, int count, int devices[]) {
  if (count < 1 || count > 8) return 7;
  handle->count = count;
  for (int place = 0; place < count; place++) handle->devices[place] = devices[place];
  return 0;
}

int cublasXtSetBlockDim(Context *handle, int block) {
  handle->block = block;
  return block > 0 ? 0 : 7;
}

int cublasXtSetPinningMemMode(Context *handle, int mode) {
  handle->pinning = mode;
  return mode == 0 || (mode == 1 && !refused) ? 0 : 7;
}

int cublasXtSetCpuRoutine(Context *handle, int operation, int type, void *routine) {
  handle->routine[type] = routine;
  return operation == 0 ? 0 : 7;
}

int cublasXtSetCpuRatio(Context *handle, int operation, int type, float ratio) {
  handle->ratio[type] = ratio;
  return operation == 0 && ratio >= 0 && ratio <= 1 ? 0 : 7;
}

void refuse_pinning(int refuse) { refused = refuse; }
float read_ratio(int type) { return only.ratio[type]; }
int read_block(void) { return only.block; }
int read_pinning(void) { return only.pinning; }
int read_count(void) { return only.count; }
int read_device(int place) { return only.devices[place]; }

#define GEMM(NAME, TYPE, FUNCTION, KIND)                                                     \
  int NAME(Context *handle, int transa, int transb, size_t m, size_t n, size_t k,            \
           const TYPE *alpha, const TYPE *a, size_t lda, const TYPE *b, size_t ldb,          \
           const TYPE *beta, TYPE *c, size_t ldc) {                                          \
    if (handle != &only || transa || transb || lda < m || ldb < k || ldc < m) return 7;      \
    if (handle->ratio[KIND] > 0) {                                                           \
      int rows = (int)m, columns = (int)n, depth = (int)k;                                   \
      int first = (int)lda, second = (int)ldb, third = (int)ldc;                             \
      ((FUNCTION)handle->routine[KIND])("N", "N", &rows, &columns, &depth, alpha, a, &first, \
                                        b, &second, beta, c, &third);                        \
      return 0;                                                                              \
    }                                                                                        \
    for (size_t j = 0; j < n; ++j)                                                           \
      for (size_t i = 0; i < m; ++i) {                                                       \
        TYPE sum = 0;                                                                        \
        for (size_t l = 0; l < k; ++l) sum += a[i + l * lda] * b[l + j * ldb];               \
        c[i + j * ldc] = *beta == 0 ? *alpha * sum : *alpha * sum + *beta * c[i + j * ldc];  \
      }                                                                                      \
    return 0;                                                                                \
  }

GEMM(cublasXtSgemm, float, Sgemm, 0)
GEMM(cublasXtDgemm, double, Dgemm, 1)
