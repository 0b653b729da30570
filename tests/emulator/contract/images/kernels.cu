// The source of the images in this folder, compiled with CUDA 13.0:
//   nvcc -arch=sm_80 -cubin -o kernels.cubin kernels.cu
//   nvcc -arch=sm_80 -fatbin -Xfatbin=--compress-mode=speed -Xfatbin=-compress-all -o kernels.lz4.fatbin kernels.cu
//   nvcc -arch=sm_80 -fatbin -Xfatbin=--compress-mode=size -Xfatbin=-compress-all -o kernels.zstd.fatbin kernels.cu
// The tests need no compiler: they load the compiled files.

extern "C" {

__device__ int counter = 7;
__device__ float table[100];
__constant__ double scale[4];

struct Pair {
  char tag;
  double value;
};

__global__ void fill(int* destination, int value, unsigned long long count) {
  const unsigned long long i = blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x;
  if (i < count) destination[i] = value + counter + static_cast<int>(scale[i & 3]);
}

__global__ void __launch_bounds__(128) limited(Pair pair, short small, float* out) {
  __shared__ float tile[256];
  extern __shared__ float more[];
  tile[threadIdx.x] = static_cast<float>(pair.value);
  more[threadIdx.x] = small;
  __syncthreads();
  *out = tile[threadIdx.x ^ 1] + more[1] + table[threadIdx.x];
}

__global__ void nothing() {}
}
