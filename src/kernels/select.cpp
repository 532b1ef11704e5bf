#include <cpuid.h>

#include <cstring>

#include "base/assert.h"
#include "base/format.h"
#include "kernels/kernels.h"

namespace strata::kernels {

// The tables of the ISA units (cpu/unit_*.cpp).
namespace scalar { extern const Kernels kTable; }
namespace avx2 { extern const Kernels kTable; }
namespace avx512 { extern const Kernels kTable; }

namespace {

// CPUID says what the core can do; XCR0 says which registers the operating system saves when it switches threads.
// Without the second, wide registers would be corrupted even where CPUID lists them. 0 where XGETBV does not exist.
uint64_t saved_register_sets() {
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & bit_OSXSAVE) == 0) return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

bool saves_registers(uint64_t mask) { return (saved_register_sets() & mask) == mask; }

// The parts of x86-64-v3 that clang's __builtin_cpu_supports has no names for.
bool has_unnamed_v3_parts() {
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((ecx & bit_F16C) == 0 || (ecx & bit_MOVBE) == 0) return false;
  return __get_cpuid(0x80000001u, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_LZCNT) != 0;
}

bool has_avx2() {
  constexpr uint64_t kXmmYmm = 0x6;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && has_unnamed_v3_parts() && saves_registers(kXmmYmm);
}

bool has_avx512() {
  constexpr uint64_t kXmmYmmZmm = 0xe6;
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && saves_registers(kXmmYmmZmm);
}

constexpr Isa kAll[] = {Isa::kAvx512, Isa::kAvx2, Isa::kScalar};  // best first

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar: return "scalar";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
  }
  return "unknown";
}

bool isa_available(Isa isa) {
  switch (isa) {
    case Isa::kScalar: return true;
    case Isa::kAvx2: return has_avx2();
    case Isa::kAvx512: return has_avx512();
  }
  return false;
}

const Kernels& kernels_for(Isa isa) {
  ASSERT(isa_available(isa));
  switch (isa) {
    case Isa::kAvx512: return avx512::kTable;
    case Isa::kAvx2: return avx2::kTable;
    case Isa::kScalar: break;
  }
  return scalar::kTable;
}

Result<const Kernels*> select_kernels(const char* name) {
  const bool automatic = std::strcmp(name, "auto") == 0;
  for (const Isa isa : kAll) {
    if (!automatic && std::strcmp(name, isa_name(isa)) != 0) continue;
    if (isa_available(isa)) return &kernels_for(isa);
    if (!automatic) {
      return Error{ErrorCode::kUnsupported,
                   format("--isa={}: this processor or operating system lacks it; use --isa=auto", name)};
    }
  }
  return Error{ErrorCode::kBadInput,
               format("--isa={}: unknown instruction set; allowed are auto, scalar, avx2 and avx512", printable(name))};
}

}  // namespace strata::kernels
