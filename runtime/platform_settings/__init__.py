"""What the platform decides over this machine's own settings, read afresh for each execution."""

from runtime.platform_settings.sources import FileSettings, NacosSettings, PlatformSettings, Reading, uses_nacos

__all__ = ["FileSettings", "NacosSettings", "PlatformSettings", "Reading", "uses_nacos"]
