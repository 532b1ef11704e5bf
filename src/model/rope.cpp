#include "model/rope.h"

#include <cmath>

#include "base/format.h"
#include "model/hparams.h"

namespace strata::model {
namespace {

using kernels::RopeScalingType;

const char* type_name(RopeScalingType type) {
  switch (type) {
    case RopeScalingType::kNone:
      return "none";
    case RopeScalingType::kLinear:
      return "linear";
    case RopeScalingType::kYarn:
      return "yarn";
  }
  return "";
}

Status read_turned(const Keys& keys, HParams& hp) {
  ASSIGN_OR_RETURN(const int64_t n_rot, keys.int_or("rope.dimension_count", hp.key_dim, 2, hp.key_dim));
  if (n_rot % 2 != 0) {
    return Error{ErrorCode::kBadInput, format("{}: key {} is {}, expected an even number", keys.model().path(),
                                              keys.full("rope.dimension_count"), n_rot)};
  }
  hp.rope.n_rot = static_cast<int>(n_rot);
  ASSIGN_OR_RETURN(hp.rope.base, keys.float_or("rope.freq_base", 10000.0));
  if (hp.rope.base > 1) return {};
  return Error{ErrorCode::kBadInput, format("{}: key {} is {}, expected more than 1", keys.model().path(),
                                            keys.full("rope.freq_base"), hp.rope.base)};
}

Status read_type(const Keys& keys, HParams& hp) {
  ASSIGN_OR_RETURN(const std::string type, keys.string_or("rope.scaling.type", "linear"));
  if (type == "none" || type == "longrope") {
    hp.rope.type = RopeScalingType::kNone;
    hp.longrope = type == "longrope";
    return {};
  }
  if (type == "linear") {
    hp.rope.type = hp.rope.factor == 1 ? RopeScalingType::kNone : RopeScalingType::kLinear;
    return {};
  }
  if (type == "yarn") {
    hp.rope.type = RopeScalingType::kYarn;
    ASSIGN_OR_RETURN(const double log_multiplier, keys.float_or("rope.scaling.yarn_log_multiplier", 0.0));
    hp.rope.has_log_multiplier = log_multiplier != 0;
    return {};
  }
  return Error{ErrorCode::kUnsupported,
               format("{}: rope scaling '{}' is not supported (none, linear, yarn and longrope are)",
                      keys.model().path(), printable(type))};
}

Status read_scaling(const Keys& keys, HParams& hp) {
  ASSIGN_OR_RETURN(hp.rope.factor, keys.float_or("rope.scaling.factor", 1.0));
  if (hp.rope.factor == 0) hp.rope.factor = 1;
  ASSIGN_OR_RETURN(hp.rope.attn_factor, keys.float_or("rope.scaling.attn_factor", 1.0));
  ASSIGN_OR_RETURN(hp.rope.original_context,
                   keys.float_or("rope.scaling.original_context_length", static_cast<double>(hp.context_length)));
  if (!(hp.rope.factor > 0) || !(hp.rope.original_context > 0)) {
    return Error{ErrorCode::kBadInput, format("{}: keys {} and original_context_length have to be positive",
                                              keys.model().path(), keys.full("rope.scaling.factor"))};
  }
  return read_type(keys, hp);
}

// Where only a factor is given it is that of the file's scaling, and of linear scaling where the file has none.
Status apply(const RopeOverrides& wanted, const std::string& path, HParams& hp) {
  kernels::RopeScaling& rope = hp.rope;
  if (wanted.base) rope.base = *wanted.base;
  if (hp.longrope && (wanted.scaling || wanted.factor)) {
    return Error{ErrorCode::kUnsupported,
                 format("{}: its rope is scaled by tables (longrope), which --rope-scaling, --rope-scale and "
                        "--rope-freq-scale cannot change",
                        path)};
  }
  if (wanted.factor) rope.factor = *wanted.factor;
  if (wanted.scaling) {
    rope.type = *wanted.scaling;
  } else if (wanted.factor && rope.type == RopeScalingType::kNone) {
    rope.type = RopeScalingType::kLinear;
  }
  // A log multiplier belongs to the file's YaRN; with another scaling the magnitude is 1 anyway.
  if (const char* flag = wanted.yarn_flag(); flag != nullptr && rope.type != RopeScalingType::kYarn) {
    return Error{ErrorCode::kBadInput, format("{}: {} is of YaRN, but its rope scaling is {}; add --rope-scaling yarn",
                                              path, flag, hp.longrope ? "longrope" : type_name(rope.type))};
  }
  if (wanted.original_context) rope.original_context = *wanted.original_context;
  if (wanted.ext_factor) rope.ext_factor = *wanted.ext_factor;
  if (wanted.attn_factor) rope.attn_factor *= *wanted.attn_factor;
  if (wanted.beta_fast) rope.beta_fast = *wanted.beta_fast;
  if (wanted.beta_slow) rope.beta_slow = *wanted.beta_slow;
  if (rope.beta_fast > rope.beta_slow) return {};
  return Error{ErrorCode::kBadInput, format("--yarn-beta-fast {} has to be more than --yarn-beta-slow {}",
                                            rope.beta_fast, rope.beta_slow)};
}

}  // namespace

const char* RopeOverrides::yarn_flag() const {
  if (original_context) return "--yarn-orig-ctx";
  if (ext_factor) return "--yarn-ext-factor";
  if (attn_factor) return "--yarn-attn-factor";
  if (beta_fast) return "--yarn-beta-fast";
  return beta_slow ? "--yarn-beta-slow" : nullptr;
}

Status check_overrides(const RopeOverrides& overrides) {
  if (!overrides.scaling) return {};
  const RopeScalingType type = *overrides.scaling;
  const auto contradicts = [&](const char* flag) {
    return Error{ErrorCode::kBadInput,
                 format("--rope-scaling {} and {} contradict each other; give one of them", type_name(type), flag)};
  };
  if (type == RopeScalingType::kNone && overrides.factor) return contradicts("a scale");
  const char* flag = overrides.yarn_flag();
  return flag != nullptr && type != RopeScalingType::kYarn ? Status(contradicts(flag)) : Status();
}

Status read_rope(const Keys& keys, HParams& hp) {
  RETURN_IF_ERROR(read_turned(keys, hp));
  RETURN_IF_ERROR(read_scaling(keys, hp));
  return keys.rope() == nullptr ? Status() : apply(*keys.rope(), keys.model().path(), hp);
}

}  // namespace strata::model
