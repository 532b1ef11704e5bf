// In the place of the CUDA devices, in a build without them.
#include "base/format.h"
#include "device/cuda/cuda.h"

namespace strata::device::cuda {

Result<std::unique_ptr<Gpu>> open_gpu(int ordinal, const GpuOptions&) {
  return Error{ErrorCode::kUnsupported,
               format("--device cuda:{}: this program was built without CUDA; configure it with -DSTRATA_CUDA=ON, or "
                      "use --device cpu",
                      ordinal)};
}

}  // namespace strata::device::cuda
