#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "base/assert.h"
#include "base/format.h"
#include "kernels/kernels.h"

namespace strata::kernels {

// The tables of the ISA units (cpu/unit_*.cpp).
namespace scalar {
extern const Kernels kTable;
}
namespace avx2 {
extern const Kernels kTable;
}
namespace avx512 {
extern const Kernels kTable;
}
namespace avx512vnni {
extern const Kernels kTable;
}
namespace amx {
extern const Kernels kTable;
}

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

// CPUID leaf 7 names what __builtin_cpu_supports of older compilers does not know.
bool cpuid7(uint32_t ecx_bits, uint32_t edx_bits) {
  uint32_t eax, ebx, ecx, edx;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ecx & ecx_bits) == ecx_bits &&
         (edx & edx_bits) == edx_bits;
}

bool has_avx512vnni() {
  constexpr uint32_t kVbmi = 1u << 1, kGfni = 1u << 8, kVnni = 1u << 11;
  return has_avx512() && cpuid7(kVbmi | kGfni | kVnni, 0);
}

// The matrix unit's registers are large, so Linux saves them only for processes that have asked.
bool has_amx() {
  constexpr uint32_t kTiles = 1u << 24, kInt8 = 1u << 25;
  constexpr uint64_t kTileConfigAndData = 0x60000;
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // its number among the saved register sets
  if (!has_avx512vnni() || !cpuid7(0, kTiles | kInt8) || !saves_registers(kTileConfigAndData)) return false;
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
}

constexpr Isa kAll[] = {Isa::kAmx, Isa::kAvx512Vnni, Isa::kAvx512, Isa::kAvx2, Isa::kScalar};  // best first

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512vnni";
    case Isa::kAmx:
      return "amx";
  }
  return "unknown";
}

bool isa_available(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return has_avx2();
    case Isa::kAvx512:
      return has_avx512();
    case Isa::kAvx512Vnni:
      return has_avx512vnni();
    case Isa::kAmx:
      return has_amx();
  }
  return false;
}

const Kernels& kernels_for(Isa isa) {
  ASSERT(isa_available(isa));
  switch (isa) {
    case Isa::kAmx:
      return amx::kTable;
    case Isa::kAvx512Vnni:
      return avx512vnni::kTable;
    case Isa::kAvx512:
      return avx512::kTable;
    case Isa::kAvx2:
      return avx2::kTable;
    case Isa::kScalar:
      break;
  }
  return scalar::kTable;
}

ActFormat act_format(quant::Type weight) { return scalar::kTable.act_format(weight); }

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
               format("--isa={}: unknown instruction set; allowed are auto, scalar, avx2, avx512, avx512vnni and amx",
                      printable(name))};
}

}  // namespace strata::kernels
