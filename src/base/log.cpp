// spdlog, header-only and with the system's fmt, is seen by this file alone.
#define FMT_HEADER_ONLY
#define SPDLOG_FMT_EXTERNAL
#include <spdlog/logger.h>
#include <spdlog/sinks/ansicolor_sink.h>

#include "base/log.h"

#include <atomic>
#include <memory>

namespace strata {
namespace {

std::atomic<LogLevel> least_level{LogLevel::kWarning};

// Colours only where stderr is a terminal that knows them: the sink's automatic mode. Never destroyed, so that threads
// which outlive main may still log.
spdlog::logger& logger() {
  static spdlog::logger* const instance = [] {
    auto sink = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>(spdlog::color_mode::automatic);
    auto* made = new spdlog::logger("strata", std::move(sink));
    made->set_pattern("strata: %^%l:%$ %v");
    made->set_level(spdlog::level::trace);  // least_level has already decided
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void set_log_level(LogLevel level) { least_level.store(level, std::memory_order_relaxed); }

bool log_enabled(LogLevel level) { return level >= least_level.load(std::memory_order_relaxed); }

void log_message(LogLevel level, const std::string& message) {
  if (!log_enabled(level)) return;
  logger().log(spdlog_level(level), spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace strata
