"""The creatives listing: advertisements of one advertiser, from a public source."""
