#include "report/info.h"
bool info_html(const Info *info, const tblock_report_options *opt, char **text, Error *err){(void)info;(void)opt;(void)err;*text=NULL;return false;}
