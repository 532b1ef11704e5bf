#include "experts/arena_models.h"

#include "base/assert.h"
#include "base/settings.h"
#include "gguf/writer.h"

namespace strata::test {

ExpertSpec arena_spec(const std::string& name) {
  ExpertSpec spec{.n_layers = 3, .dim = 96, .ffn = 160, .n_experts = 8, .gate_up_type = quant::Type::Q8_0,
                  .scales = true};
  if (name == "c") std::swap(spec.dim, spec.ffn);
  if (name == "large") spec.n_experts = 80;
  return spec;
}

void write_arena_model(const std::string& name, const std::string& path) {
  const ExpertSpec spec = arena_spec(name);
  const std::vector<TensorSpec> tensors = expert_tensors(spec, random_parts(spec, name == "b" ? 2 : 1));
  gguf::Writer writer("test");
  for (const TensorSpec& t : tensors) writer.add_tensor(t.name, static_cast<quant::Type>(t.type), t.ne, *t.data);
  ASSERT(writer.write(path).ok());
}

experts::ExpertLayout arena_layout(const std::string& name, const gguf::Model& model) {
  const ExpertSpec spec = arena_spec(name);
  return experts::ExpertLayout::from_model(model, spec.n_layers, spec.dim, spec.ffn, spec.n_experts).value();
}

std::vector<std::string> arena_folders() {
  std::vector<std::string> folders = {"/dev/shm"};
  if (const std::string more = environment("STRATA_TEST_ARENA_DIR"); !more.empty()) folders.push_back(more);
  return folders;
}

}  // namespace strata::test
