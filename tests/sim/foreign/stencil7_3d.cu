// One explicit step of the heat equation on a three-dimensional grid (seven-point Laplacian), one thread a cell.
// Cells on the surface keep their value.

extern "C" __global__ void heat3d(const float *__restrict__ u, float *__restrict__ next, int nx, int ny, int nz,
                                  float r) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  const int z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x >= nx || y >= ny || z >= nz) return;

  const int plane = nx * ny;
  const int i = z * plane + y * nx + x;
  const float centre = u[i];
  float value = centre;
  if (x > 0 && x < nx - 1 && y > 0 && y < ny - 1 && z > 0 && z < nz - 1) {
    const float around = u[i - 1] + u[i + 1] + u[i - nx] + u[i + nx] + u[i - plane] + u[i + plane];
    value = fmaf(r, around - 6.0f * centre, centre);
  }
  next[i] = value;
}
