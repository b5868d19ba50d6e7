// browsers do not let pages of file:// read each other: there, the search lists titles without excerpts
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
