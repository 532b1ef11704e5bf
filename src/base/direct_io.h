// Inside base/ only: what the system says about reads that go past its page cache, and how reads fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace strata {

// What offsets, lengths and addresses of direct reads of `fd`, which is open with O_DIRECT, have to be multiples of: at
// least 4 KiB, whatever smaller unit the drive would take. kUnsupported where direct reads bring nothing (the file lies
// in memory), are refused, or would need more than kDirectAlignmentMax.
Result<size_t> direct_read_alignment(int fd, const std::string& path);
inline constexpr size_t kDirectAlignmentMax = 65536;

Error no_direct_reads(const std::string& path, const std::string& why);

// Of a read that failed with errno number `error`: kInterrupted if it may be tried again, else kIo.
Error read_error(const std::string& path, uint64_t offset, size_t bytes, int error);

}  // namespace strata
