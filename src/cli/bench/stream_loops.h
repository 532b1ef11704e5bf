// Loops that do nothing but move memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::cli {

// Bytes that the loops below go on by: every size is a multiple of it, every pointer a multiple of 64.
inline constexpr size_t kLoopBytes = 2048;

// Reads all bytes, with loads of 64 bytes where the machine has them. Returns their sum as words of 64 bits.
uint64_t read_stream(const std::byte* from, size_t bytes);
// Writes the value into every word of 64 bits, past the caches.
void write_stream(std::byte* to, size_t bytes, uint64_t value);
// Copies, writing past the caches.
void copy_stream(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace strata::cli
