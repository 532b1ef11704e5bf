// Words that the host and a device both see, raised and waited for by kernels. Among kernels that start early they cost
// less than a stream's own operations on memory, at which everything in front ends and everything behind begins.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace strata::kernels::cuda {

// Once all that stands in front on the stream is done, and the host can see what it has written.
void launch_raise(uint32_t* word, uint32_t value, cudaStream_t stream);
// What stands behind waits until the word has reached the value (numbers wrap around). The host is sure to get there.
void launch_await(const uint32_t* word, uint32_t value, cudaStream_t stream);

}  // namespace strata::kernels::cuda
