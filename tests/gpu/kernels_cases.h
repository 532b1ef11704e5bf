// Cases of the shapes and types for which the GPU has kernels of its own; what they want is what the host computes.
#pragma once

#include "device/op_case.h"
#include "device/host/host_device.h"

namespace strata::test {

// Every weight type with every rounding that it has, few rows and many.
void add_product_cases(device::host::HostDevice& host, OpCases& cases);
// Several products of rows that are normed before, few rows and many.
void add_projection_cases(device::host::HostDevice& host, OpCases& cases);
// A product whose inputs' first row is the same for any number of rows; its outputs.
const Grid<float>* add_rows_case(device::host::HostDevice& host, OpCases& cases, quant::Type type,
                                 device::Rounding rounding, int32_t live);
void add_embed_cases(device::host::HostDevice& host, OpCases& cases);
// Experts of every type with float and with rounded activations, few pairs and many.
void add_routed_cases(device::host::HostDevice& host, OpCases& cases);
// Rows of outputs of such a case, as they are now, and those that are the host's up to the rounding of sums.
struct SameRows {
  int all = 0, same = 0;
};
SameRows same_routed_rows(const std::vector<Want>& wants);
// Rows of a prompt, with rows of other sequences among them.
void add_prompt_attention_cases(device::host::HostDevice& host, OpCases& cases);
// Rows that are appended to the cache and attend to what it holds then: some continue one sequence, some others.
void add_append_attend_cases(device::host::HostDevice& host, OpCases& cases);
// Every gating, with and without groups.
void add_route_cases(device::host::HostDevice& host, OpCases& cases);
// Norm, router and choice of experts in one operation.
void add_norm_route_cases(device::host::HostDevice& host, OpCases& cases);
// Experts with the sum of their outputs.
void add_summed_expert_cases(device::host::HostDevice& host, OpCases& cases);
void add_long_delta_cases(device::host::HostDevice& host, OpCases& cases);
// Residuals of several streams, and looked-up features.
void add_stream_cases(device::host::HostDevice& host, OpCases& cases);
// Index, choice and attention of rows with long contexts.
void add_sparse_prompt_cases(device::host::HostDevice& host, OpCases& cases);
// Matrices of heads, and attention to a latent cache.
void add_wide_latent_cases(device::host::HostDevice& host, OpCases& cases);

}  // namespace strata::test
