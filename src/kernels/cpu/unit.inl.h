// Everything one ISA unit compiles, and its row of the kernel table. Included once by each unit_*.cpp.
#include "kernels/kernels.h"

#include "kernels/cpu/simd.h"

#include "kernels/cpu/decode.inl.h"
#include "kernels/cpu/matmul.inl.h"
#include "kernels/cpu/q8/matmul.inl.h"
#include "kernels/cpu/norm.inl.h"
#include "kernels/cpu/activation.inl.h"
#include "kernels/cpu/attention/attention.inl.h"
#include "kernels/cpu/delta.inl.h"

namespace strata::kernels::STRATA_ISA_NS {

extern const Kernels kTable;
const Kernels kTable = {
    .isa = STRATA_ISA_ID,
    .decode = decode,
    .matmul = matmul,
    .act_format = act_format_of,
    .quantize_row = quantize_row,
    .has_tiles = kHasTiles,
    .pack_tile = pack_tile,
    .matmul_q8 = matmul_q8,
    .dot = dot,
    .axpy = axpy,
    .rms_norm = rms_norm,
    .l2_norm = l2_norm,
    .rope = rope,
    .silu_mul = silu_mul,
    .swiglu_clamped = swiglu_clamped,
    .sigmoid_mul = sigmoid_mul,
    .silu_gate = silu_gate,
    .kv_store = kv_store,
    .attention = attention,
    .attention_span = attention_span,
    .attention_join = attention_join,
    .conv_step = conv_step,
    .delta_step = delta_step,
    .delta_chunk = delta_chunk,
};

}  // namespace strata::kernels::STRATA_ISA_NS
