package lyrebird.tests;

import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.Tokenizer;
import org.apache.lucene.analysis.email.UAX29URLEmailTokenizer;
import org.apache.lucene.analysis.miscellaneous.RemoveDuplicatesTokenFilter;
import org.apache.lucene.analysis.pattern.PatternCaptureGroupTokenFilter;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.index.analysis.AbstractTokenFilterFactory;
import org.elasticsearch.index.analysis.AbstractTokenizerFactory;
import org.elasticsearch.index.analysis.TokenFilterFactory;
import org.elasticsearch.index.analysis.TokenizerFactory;
import org.elasticsearch.indices.analysis.AnalysisModule.AnalysisProvider;
import org.elasticsearch.plugins.AnalysisPlugin;
import org.elasticsearch.plugins.Plugin;

/**
 * What the index of API keys asks for and the small distribution lacks: its analyzer of mail addresses. Keys themselves
 * are never analyzed, so how near these are to the originals does not matter.
 */
public class SecurityAnalysisPlugin extends Plugin implements AnalysisPlugin {
    @Override
    public Map<String, AnalysisProvider<TokenFilterFactory>> getTokenFilters() {
        return Map.of(
            "pattern_capture", (index, environment, name, settings) -> new Captured(name, settings),
            "unique", (index, environment, name, settings) -> new Unique(name, settings)
        );
    }

    @Override
    public Map<String, AnalysisProvider<TokenizerFactory>> getTokenizers() {
        return Map.of("uax_url_email", (index, environment, name, settings) -> new AbstractTokenizerFactory(index, settings, name) {
            @Override
            public Tokenizer create() {
                return new UAX29URLEmailTokenizer();
            }
        });
    }

    private static final class Captured extends AbstractTokenFilterFactory {
        private final Pattern[] patterns;
        private final boolean original;

        Captured(String name, Settings settings) {
            super(name, settings);
            List<String> given = settings.getAsList("patterns");
            patterns = given.stream().map(Pattern::compile).toArray(Pattern[]::new);
            original = settings.getAsBoolean("preserve_original", true);
        }

        @Override
        public TokenStream create(TokenStream tokens) {
            return new PatternCaptureGroupTokenFilter(tokens, original, patterns);
        }
    }

    private static final class Unique extends AbstractTokenFilterFactory {
        Unique(String name, Settings settings) {
            super(name, settings);
        }

        @Override
        public TokenStream create(TokenStream tokens) {
            return new RemoveDuplicatesTokenFilter(tokens);
        }
    }
}
